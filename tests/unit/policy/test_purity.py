"""The policy decides; it never acts."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "celery_fair"
FORBIDDEN = {"time", "random", "threading", "logging", "asyncio", "datetime", "os", "secrets"}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module


@pytest.mark.parametrize("path", sorted((PACKAGE / "policy").glob("*.py")), ids=lambda p: p.name)
def test_policy_imports_the_standard_library_and_itself(path):
    for name in imports(path):
        top = name.partition(".")[0]
        assert name.startswith("celery_fair.policy") or top in sys.stdlib_module_names
        assert top not in FORBIDDEN


@pytest.mark.parametrize("path", sorted((PACKAGE / "sim").glob("*.py")), ids=lambda p: p.name)
def test_the_simulator_imports_the_policy_and_the_standard_library(path):
    for name in imports(path):
        allowed = name.startswith(
            ("celery_fair.policy", "celery_fair.sim", "celery_fair.resources")
        )
        assert allowed or name.partition(".")[0] in sys.stdlib_module_names
