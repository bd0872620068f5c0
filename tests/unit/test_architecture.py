"""Imports point one way. Read with ``ast``: importing a part would run ``celery_fair/__init__``."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "celery_fair"

#: The public names' own parts, beside ``celery_fair/__init__``.
CORE = {
    "ambient", "app", "current", "errors", "globs", "headers", "options", "publish", "routing",
    "settings", "task",
}  # fmt: skip

#: What each part may import of the package; a part not named here may import anything but the
#: edges. ``public`` is ``celery_fair`` itself.
ALLOWED = {
    "policy": {"policy"},
    "sim": {"sim", "policy", "resources"},
    "errors": set(),
    "headers": {"policy"},
    "settings": {"settings", "policy", "errors", "resources"},
    "integrations": {"public", "integrations"},
}

#: Flower is where the facts are shown, as the CLI and the exporter do, and not where a user's app
#: is adapted: it listens to the cluster, for which there is no public name.
ALLOWED_INSIDE = {"integrations/flower": {"public", "integrations", "observe"}}

#: Nothing inside leans on them: they are where others come in.
EDGES = {"cli", "demo", "integrations", "testing", "__main__"}


def files(part: str) -> list[Path]:
    module = PACKAGE / f"{part}.py"
    return [module] if module.exists() else sorted((PACKAGE / part).rglob("*.py"))


def imports(file: Path, top_level_only: bool = False) -> Iterator[str]:
    """Yield what a file imports by full names; ``from a import b`` gives ``a`` and ``a.b``."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes = tree.body if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import hides where it points"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(name: str) -> str | None:
    """Return the part of the package that a full name belongs to, if it is ours."""
    top, _, rest = name.partition(".")
    if top != "celery_fair":
        return None
    part = rest.partition(".")[0]
    known = (PACKAGE / part).is_dir() or (PACKAGE / f"{part}.py").exists()
    return part if part and known else "public"


def parts() -> list[str]:
    found = {
        file.relative_to(PACKAGE).parts[0].removesuffix(".py") for file in PACKAGE.rglob("*.py")
    }
    return sorted(found - {"__init__"})


def own_imports(file: Path) -> set[str]:
    """Return the parts of the package that a file imports from."""
    return {part for part in map(part_of, imports(file)) if part is not None}


def allowed(file: Path, part: str) -> set[str]:
    folder = file.relative_to(PACKAGE).parent.as_posix()
    return ALLOWED_INSIDE.get(folder, ALLOWED[part])


@pytest.mark.parametrize("part", sorted(ALLOWED))
def test_a_part_imports_only_what_lies_below_it(part: str) -> None:
    assert files(part), f"no part {part}"
    for file in files(part):
        assert own_imports(file) <= allowed(file, part), file


@pytest.mark.parametrize("part", ["policy"])
def test_the_policy_needs_only_the_standard_library(part: str) -> None:
    for file in files(part):
        others = {name.partition(".")[0] for name in imports(file)} - {"celery_fair"}
        assert others <= set(sys.stdlib_module_names), file


#: A pure decision looks at no clock, starts nothing, draws no lot and writes no log.
IMPURE = {"asyncio", "logging", "os", "random", "socket", "subprocess", "threading", "time"}


def test_the_policy_looks_at_nothing_but_its_arguments() -> None:
    for file in files("policy"):
        assert not {name.partition(".")[0] for name in imports(file)} & IMPURE, file


@pytest.mark.parametrize("part", sorted(set(parts()) - EDGES))
def test_nothing_inside_leans_on_an_edge(part: str) -> None:
    for file in files(part):
        assert not own_imports(file) & EDGES, file


@pytest.mark.parametrize("part", sorted(CORE))
def test_publishers_dont_load_the_worker(part: str) -> None:
    """At the top of a module; the one import of the steps stands in the signal's receiver."""
    for file in files(part):
        loaded = {part_of(name) for name in imports(file, top_level_only=True)}
        assert not loaded & {"worker", "observe", "cli", "sim"}, file


def test_examples_use_public_names_only() -> None:
    for file in sorted((ROOT / "example_project").glob("*.py")):
        assert own_imports(file) <= {"public", "integrations", "engine"}, file


def test_frameworks_stay_in_their_integrations() -> None:
    for part in set(parts()) - {"integrations"}:
        for file in files(part):
            tops = {name.partition(".")[0] for name in imports(file)}
            assert not tops & {"django", "flask", "flower", "tornado"}, file
