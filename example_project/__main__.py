"""All of it at once, with something to look at: ``python -m example_project``.

Starts Redis, the model, two workers, both front ends and their load; then the exporter and Flower,
and Prometheus and Grafana where those are installed. Ctrl-C ends everything.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from honcho.manager import Manager

ROOT = Path(__file__).parents[1]
APP = "example_project.flask_app:celery_app"
PORTS = {
    "redis": 6390,
    "model": 8001,
    "flask": 5000,
    "django": 8000,
    "exporter": 9541,
    "flower": 5555,
    "prometheus": 9090,
    "grafana": 3000,
}


def main() -> int:
    """Start what is there, say where it is, and wait."""
    parser = argparse.ArgumentParser(prog="python -m example_project", description=__doc__)
    parser.add_argument("--free-ports", action="store_true", help="take any, instead of the usual")
    parser.add_argument("--no-load", action="store_true", help="only what you ask for yourself")
    options = parser.parse_args()
    ports = free_ports() if options.free_ports else PORTS
    with (
        tempfile.TemporaryDirectory(prefix="example-") as folder,
        redis(ports["redis"], folder),
    ):
        manager = Manager()
        commands = dict(processes(ports, Path(folder)))
        if options.no_load:
            del commands["load"]
        for name, (command, more) in commands.items():
            manager.add_process(name, command, cwd=str(ROOT), env=environment(ports, more))
        for line in announcements(ports, commands):
            print(line, flush=True)
        manager.loop()
        return manager.returncode or 0


@contextmanager
def redis(port: int, folder: str) -> Iterator[None]:
    """A server that outlives the others, and keeps nothing."""
    path = shutil.which("redis-server")
    if path is None:
        sys.exit("The example needs redis-server on the PATH: install Redis.")
    command = [path, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
    server = subprocess.Popen(
        [*command, "--loglevel", "warning"],
        start_new_session=True,  # Ctrl-C is for the others
    )
    try:
        yield
    finally:
        server.terminate()
        server.wait()


def processes(ports: dict[str, int], folder: Path) -> Iterator[tuple[str, tuple[str, dict]]]:
    """Name, shell command and more of the environment of each process."""
    python = f"exec {sys.executable} -m"
    yield "model", (f"{python} example_project.model_server", {"MODEL_PORT": str(ports["model"])})
    for name in ("one", "two"):
        worker = f"{python} celery -A {APP} worker -P threads -c 4 -n {name}@example -l WARNING"
        yield f"worker-{name}", (worker, {})
    yield "flask", (f"{python} flask --app example_project.flask_app run -p {ports['flask']}", {})
    django = f"example_project.django_app runserver --noreload {ports['django']}"
    yield "django", (f"{python} {django}", {})
    yield "load", (f"{python} example_project.load", {})
    yield "exporter", (f"{python} celery -A {APP} fair exporter --port {ports['exporter']}", {})
    flower = f"--address=127.0.0.1 --port={ports['flower']}"
    yield "flower", (f"{python} celery -A {APP} fair flower {flower}", {})
    yield from prometheus(ports, folder)
    yield from grafana(ports, folder)


def prometheus(ports: dict[str, int], folder: Path) -> Iterator[tuple[str, tuple[str, dict]]]:
    """It scrapes the exporter, and knows our alerts."""
    path = shutil.which("prometheus")
    if path is None:
        return
    targets = [{"targets": [f"127.0.0.1:{ports['exporter']}"]}]
    config = {
        "global": {"scrape_interval": "5s", "evaluation_interval": "5s"},
        "rule_files": [str(ROOT / "grafana" / "alerts.yml")],
        "scrape_configs": [{"job_name": "celery-fair", "static_configs": targets}],
    }
    file = folder / "prometheus.yml"
    file.write_text(json.dumps(config))  # which is YAML too
    options = (
        f"--config.file={file} --storage.tsdb.path={folder / 'prometheus'} "
        f"--web.listen-address=127.0.0.1:{ports['prometheus']} --log.level=warn"
    )
    yield "prometheus", (f"exec {path} {options}", {})


def grafana(ports: dict[str, int], folder: Path) -> Iterator[tuple[str, tuple[str, dict]]]:
    """It finds Prometheus and our dashboard by itself."""
    path = shutil.which("grafana")
    if path is None:
        return
    source = {"name": "Prometheus", "type": "prometheus", "isDefault": True}
    source["url"] = f"http://127.0.0.1:{ports['prometheus']}"
    provider = {"name": "celery-fair", "options": {"path": str(ROOT / "grafana")}}
    for kind, what in (("datasources", source), ("dashboards", provider)):
        (folder / "provisioning" / kind).mkdir(parents=True)
        content = {"apiVersion": 1, "providers" if kind == "dashboards" else kind: [what]}
        (folder / "provisioning" / kind / "example.yml").write_text(json.dumps(content))
    env = {
        "GF_PATHS_PROVISIONING": str(folder / "provisioning"),
        "GF_PATHS_DATA": str(folder / "grafana"),
        "GF_SERVER_HTTP_ADDR": "127.0.0.1",
        "GF_SERVER_HTTP_PORT": str(ports["grafana"]),
        "GF_AUTH_ANONYMOUS_ENABLED": "true",
        "GF_LOG_LEVEL": "warn",
    }
    yield "grafana", (f"exec {path} server --homepath /usr/share/grafana", env)


def environment(ports: dict[str, int], more: dict[str, str]) -> dict[str, str]:
    """Where everything is, for every process."""
    broker = f"redis://127.0.0.1:{ports['redis']}"
    return {
        **os.environ,
        "BROKER_URL": f"{broker}/0",
        "RESULT_BACKEND": f"{broker}/1",
        "STORE_URL": f"{broker}/2",
        "MODEL_URL": f"http://127.0.0.1:{ports['model']}",
        "SERVICE_URL": f"http://127.0.0.1:{ports['flask']}",
        "PYTHONUNBUFFERED": "1",
        **more,
    }


def announcements(ports: dict[str, int], commands: dict[str, object]) -> Iterator[str]:
    """One line a page, and one for each that isn't there."""
    pages = {
        "model": ("the model", "/v1/models"),
        "flask": ("the page, by Flask", "/"),
        "django": ("the page, by Django", "/"),
        "flower": ("Flower's Fair page", "/fair"),
        "exporter": ("metrics", "/metrics"),
        "prometheus": ("Prometheus", "/alerts"),
        "grafana": ("Grafana", "/dashboards"),
    }
    for name, (what, path) in pages.items():
        there = f"http://127.0.0.1:{ports[name]}{path}"
        yield f"{what:20} {there if name in commands else 'not installed here'}"
    broker = f"BROKER_URL=redis://127.0.0.1:{ports['redis']}/0"
    yield f"{'in a terminal':20} {broker} celery -A {APP} fair top"


def free_ports() -> dict[str, int]:
    """A free port for each; all are held until all are found."""
    sockets = {name: socket.socket() for name in PORTS}
    for listener in sockets.values():
        listener.bind(("127.0.0.1", 0))
    found = {name: listener.getsockname()[1] for name, listener in sockets.items()}
    for listener in sockets.values():
        listener.close()
    return found


if __name__ == "__main__":
    sys.exit(main())
