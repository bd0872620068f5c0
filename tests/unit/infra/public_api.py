"""The listing of what is public: ``python -m tests.unit.infra.public_api`` writes it anew."""

from __future__ import annotations

import builtins
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
LISTING = Path(__file__).with_name("public_api.txt")

MODULES = (
    "celery_fair",
    "celery_fair.before",
    "celery_fair.engine",
    "celery_fair.testing",
    "celery_fair.integrations.asgi",
    "celery_fair.integrations.django",
    "celery_fair.integrations.flask",
    "celery_fair.integrations.flower",
    "celery_fair.integrations.httpx",
    "celery_fair.integrations.rate_limits",
)
"""Those that the docs import from."""

NOT_YET = ("celery_fair.policy", "celery_fair.sim")
"""Those that docs/simulator.md imports from: to be tried, and not promised."""

UNPROMISED = {
    "FairSettings": "admission as_travels load max_running model_post_init policy replaced shards "
    "shown source time_limits timeouts uses",
    "FairWorker": "__init__ running",
    "FairHeader": "as_line covers_children inherited once read rerouted tokens yields",
}
"""Of public classes, what only the parts of celery-fair use, and no page names."""

OF_FAIR = {
    "app",
    "init_app",
    "list_jobs",
    "of",
    "queues",
    "remove_observer",
    "settings",
    "uninstall",
}
"""Beside those that a page names: what goes with them."""

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def listing() -> str:
    """Every name with its signature, and those of its public methods and attributes."""
    return "".join(f"{line}\n" for name in MODULES for line in _of_module(name))


def _of_module(name: str) -> Iterator[str]:
    module = importlib.import_module(name)
    yield f"[{name}]"
    for public in sorted(module.__all__):
        yield from _of_object(public, getattr(module, public))


def _of_object(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"class {name}{_bases(value)}"
        yield from (f"  {line}" for line in sorted(set(_members(value))))
    elif type(value).__name__ == "FixtureFunctionDefinition" or hasattr(value, _OF_A_FIXTURE):
        yield f"{name}: fixture"
    elif inspect.isfunction(value):
        yield f"{name}{_signature(value)}"
    else:
        yield f"{name}: {type(value).__name__ if ' at 0x' in repr(value) else repr(value)}"


_OF_A_FIXTURE = "_pytestfixturefunction"
"""By which pytest < 8.4 marks a function as one."""


def _bases(value: type) -> str:
    names = [base.__name__ for base in value.__bases__ if base.__name__ in _KNOWN]
    return f"({', '.join(names)})" if names else ""


def _members(value: type) -> Iterator[str]:
    bases = [base for base in reversed(value.__mro__) if _is_ours(base)]
    unpromised = UNPROMISED.get(value.__name__, "").split()
    members = {name: one for base in bases for name, one in vars(base).items()}
    if "__init__" in members and "__init__" not in unpromised:
        yield f"__init__{_signature(members['__init__'])}"
    fields = {name for base in bases for name in vars(base).get("__annotations__", ())}
    for name in sorted({*members, *fields} - {*unpromised}):
        if value.__name__ == "Fair" and name not in OF_FAIR and not _is_on_a_page(name):
            continue  # its parts go through it as well
        if not name.startswith("_") and name != "model_config":
            yield f"{name}{_of_member(members.get(name))}"


def _is_on_a_page(name: str) -> bool:
    return any(re.search(rf"\b[Ff]air(?:\([^)]*\))?\.{name}\b", page.read_text()) for page in PAGES)


def _of_member(member: Any) -> str:
    plain = getattr(member, "__func__", getattr(member, "func", member))
    return _signature(plain) if inspect.isfunction(plain) else ": attribute"


_KNOWN = frozenset(dir(builtins)) - {"object"} | {"FairError", "Observer"}
"""Base classes that a user may catch or test for; others are where the code stands."""


def _is_ours(base: type) -> bool:
    return base.__module__.startswith("celery_fair")


def _signature(value: Any) -> str:
    """As it is written: names, kinds and defaults; annotations are what type checkers look at."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    bare = [
        one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()
    ]
    text = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return re.sub(r" at 0x[0-9a-f]+", "", text)


if __name__ == "__main__":
    LISTING.write_text(listing())
