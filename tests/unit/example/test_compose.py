"""The compose file, which no test runs: that it can be read, and names what there is."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "example_project"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if "build" in service)


def test_what_is_built_and_mounted_is_there() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            assert (FOLDER / volume.split(":")[0]).exists(), volume
        for config in service.get("configs", ()):
            assert yaml.safe_load(COMPOSE["configs"][config["source"]]["content"])
    build = SERVICES["worker"]["build"]
    assert (FOLDER / build["context"]).resolve() == ROOT
    dockerfile = (ROOT / build["dockerfile"]).read_text(encoding="utf-8")
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [
        part for line in re.findall(r"^COPY (.+) \S+$", dockerfile, re.M) for part in line.split()
    ]
    assert len(copied) == 5
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in kept


@pytest.mark.parametrize("name", OURS)
def test_each_command_starts_a_module_that_exists(name: str) -> None:
    words = shlex.split(SERVICES[name]["command"])
    modules = [word.partition(":")[0] for word in words if word.startswith("example_project.")]
    assert len(modules) == 1
    assert importlib.util.find_spec(modules[0])


def test_services_know_each_other_by_name_and_the_host_alone_sees_them() -> None:
    environment = SERVICES["worker"]["environment"]
    hosts = {match for value in environment.values() for match in re.findall(r"//(\w+):", value)}
    assert hosts == {"redis", "model", "flask"} <= set(SERVICES)
    for service in SERVICES.values():
        assert set(service.get("depends_on", ())) <= set(SERVICES)
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_it_sets_what_the_one_command_sets() -> None:
    from example_project.__main__ import PORTS, environment

    started = {name for name in environment(PORTS, {}) if name not in os.environ}
    assert started <= set(SERVICES["worker"]["environment"]) | {"PYTHONUNBUFFERED"}
