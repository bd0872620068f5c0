"""A RabbitMQ server of one's own, without its management plugin."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.brokers.process import ChildProcess, free_port

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
METHOD_FRAME = b"\x01"

USER = PASSWORD = "guest"
VHOST_BATCH = 40
DEFINITIONS = "definitions.json"

# Distributions put a wrapper on the PATH that changes the user or insists on the system's node.
SCRIPT_FOLDERS = ("/usr/lib/rabbitmq/bin", "/opt/homebrew/sbin", "/usr/local/sbin")


def script(name: str) -> str | None:
    """The path of one of RabbitMQ's own scripts, or None."""
    path = os.pathsep.join([*SCRIPT_FOLDERS, os.environ.get("PATH", ""), "/usr/sbin"])
    return shutil.which(name, path=path)


class RabbitMQServer(ChildProcess):
    """``rabbitmq-server`` with an own epmd, node name and folder; keeps them over restarts.

    A start costs 6–10 s, nearly all of it in the Erlang machine, so tests share one server and
    take a virtual host each. 40 of those come with the start for nothing (definitions read at
    boot); more are imported when they are used up, in 0.5 s.
    """

    binary = "rabbitmq-server"
    ready_seconds = 60.0

    def __init__(
        self,
        folder: Path,
        *,
        config: Mapping[str, object] | None = None,
        name: str = "rabbitmq",
    ) -> None:
        self.folder = folder
        self.port = free_port()
        self._vhosts: list[str] = []
        self._made = 0
        self._conf = {
            "disk_free_limit.absolute": "50MB",
            "load_definitions": folder / DEFINITIONS,
            **(config or {}),
        }
        env = _environment(folder, self.port)
        epmd = shutil.which("epmd") or "epmd"
        self.epmd = ChildProcess(
            f"{name}-epmd", [epmd, "-port", env["ERL_EPMD_PORT"]], folder / "epmd.log", env=env
        )
        super().__init__(name, [script(self.binary) or self.binary], folder / "out.log", env=env)

    @property
    def url(self) -> str:
        return self.url_of("/")

    def url_of(self, vhost: str) -> str:
        # kombu reads the path after the first slash as the virtual host; "/" is written "//".
        return f"amqp://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{vhost}"

    def spawn(self) -> None:
        if not self._made:
            self._write_files()
        if not self.epmd.running:
            self.epmd.spawn()
        super().spawn()

    def close(self) -> None:
        super().close()
        self.epmd.close()

    def ctl(self, *arguments: str) -> str:
        """The output of ``rabbitmqctl`` (0.3–0.5 s a call)."""
        command = [script("rabbitmqctl") or "rabbitmqctl", "-q", *arguments]
        done = subprocess.run(
            command, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"rabbitmqctl {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def new_vhost(self) -> str:
        """An empty virtual host that no one has used before."""
        if not self._vhosts:
            names = self._write_definitions()
            self.ctl("import_definitions", str(self.folder / DEFINITIONS))
            self._vhosts = names
        return self._vhosts.pop(0)

    def queues(self, vhost: str = "/", *columns: str) -> list[list[str]]:
        """``list_queues``: a row a queue, by default name and messages."""
        output = self.ctl("list_queues", "-p", vhost, *(columns or ("name", "messages")))
        return [line.split("\t") for line in output.splitlines()][1:]

    def _write_files(self) -> None:
        for name in ("home", "mnesia", "log"):
            (self.folder / name).mkdir(exist_ok=True)
        (self.folder / "enabled_plugins").write_text("[].")
        conf = "".join(f"{key} = {value}\n" for key, value in self._conf.items())
        (self.folder / "rabbitmq.conf").write_text(conf)
        self._vhosts = self._write_definitions()

    def _write_definitions(self) -> list[str]:
        """Write the definitions of new virtual hosts, which are there once the server has them."""
        names = [f"t{self._made + number}" for number in range(VHOST_BATCH)]
        self._made += VHOST_BATCH
        (self.folder / DEFINITIONS).write_text(json.dumps(_definitions(["/", *names])))
        return names

    def is_ready(self) -> bool:
        """Whether the server greets a client: it listens only when its definitions are loaded.

        By hand, since a client library may leave a socket open when a booting node hangs up.
        """
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as client:
                client.sendall(PROTOCOL_HEADER)
                return client.recv(1) == METHOD_FRAME
        except OSError:
            # Refused, reset, closed by a node that is still booting: each means "not yet".
            return False


def _environment(folder: Path, port: int) -> dict[str, str]:
    epmd_port = free_port()
    return {
        "HOME": str(folder / "home"),  # for the Erlang cookie
        # An epmd that the server starts daemonises and stays, so it is given one.
        "ERL_EPMD_PORT": str(epmd_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        # `exec` the Erlang machine instead of keeping a shell that would not die with us.
        "RUNNING_UNDER_SYSTEMD": "true",
        "RABBITMQ_NODENAME": f"fair{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        # An idle Erlang machine spins on its cores, which the tests measure.
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none",
    }


def _definitions(vhosts: list[str]) -> dict[str, object]:
    """Users, virtual hosts and permissions in the format of ``rabbitmqctl export_definitions``."""
    salt = b"fair"
    digest = hashlib.sha256(salt + PASSWORD.encode()).digest()
    user = {
        "name": USER,
        "password_hash": base64.b64encode(salt + digest).decode(),
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": ["administrator"],
    }
    everything = {"user": USER, "configure": ".*", "write": ".*", "read": ".*"}
    return {
        "users": [user],
        "vhosts": [{"name": name} for name in vhosts],
        "permissions": [{"vhost": name, **everything} for name in vhosts],
    }
