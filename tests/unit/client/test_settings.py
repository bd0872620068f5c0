"""The settings: what is accepted, what is refused and in which words, and which source wins."""

from __future__ import annotations

import math
from typing import Any

import pydantic
import pytest

from celery_fair import FairError, FairSettings, FairWarning, SettingsError
from celery_fair.settings import SECRETS

ACCEPTED: dict[str, list[Any]] = {
    "enabled": [False],
    "mode": ["observe"],
    "default_kind": ["batch"],
    "queues": [{"batch": ["reports", "imports"]}, {"batch": ("reports",)}, {}],
    "kinds": [{"reports.*": "batch"}],
    "batch_share": [0.5, 0.01],
    "aged_share": [0.2, 0.5, None],
    "share_unit": ["tasks"],
    "reserve": [0, 3, "auto"],
    "reserve_min": [0],
    "reserve_target": [0.5],
    "reserve_wait_seconds": [0, 2.5, None],
    "batch_max_slots": [1, None],
    "interactive_max_slots": [1, None],
    "protect_backlog": [0],
    "protect_wait_seconds": [0.05],
    "protect_hold_seconds": [0],
    "batch_max_wait_seconds": [60, None],
    "lookahead_seconds": [0],
    "sensor_interval_seconds": [0.25, 1],
    "hold_max_seconds": [1],
    "front_queues": [False],
    "batch_retry_max_seconds": [0.5, 3600],
    "batch_retry_budget": [0.1, 1, None],
    "yield_min_seconds": [0.1, 60],
    "yield_max_overhead": [0.01, 1],
    "interactive_timeout_seconds": [3, 0.5, None],
    "batch_timeout_seconds": [600, None],
    "interactive_max_backlog": [1, 500, None],
    "batch_max_backlog": [1, None],
    "interactive_max_wait_seconds": [0.5, 10, None],
    "deduplicate_seconds": [60, 0.5, None],
    "state_url": ["redis://localhost/1", None],
    "interactive_time_limit": [30, 0.5, None],
    "batch_time_limit": [3600, None],
    "interactive_shards": [1, 64],
    "batch_shards": [1, 16],
    "tenant_hand": [1, 8, None],
    "tenant_hash_key": ["0123456789abcdef", None],
    "tenant_turns": [False],
    "tenant_weights": [{}, {"acme": 3, "free-*": 0.5, "*": 1}],
    "tenant_max_running": [1, 64, None],
    "load_probe": ["shop.engine.probe", "shop.engine:Probes.of_vllm", print, None],
    "load_probe_seconds": [0.1, 30],
    "engine_batch_share": [0.01, 0.2, None],
    "metrics_port": [1, 65535, None],
    "metrics_host": ["127.0.0.1"],
    "log_tasks": [0, 0.01, 1],
    "record": ["redis", "/var/lib/shop", None],
    "record_sample": [0.0001, 0.1, 1],
    "record_megabytes": [1, 64],
    "resources": [{}, {"openai": {"max_running": 8}}],
    "uses": [{}, {"reports.*": ("gpu", "openai")}],
    "interactive_max_running": [1, None],
    "batch_max_running": [100, None],
    "before_batch": ["shop.rules:eligible", print, None],
    "waiting_room": [1, 10_000],
    "before_batch_seconds": [0.1, 60],
    "before_batch_on_error": ["admit", "refuse"],
}
REFUSED: dict[str, list[Any]] = {
    "enabled": [1, "yes"],
    "mode": ["enforced"],
    "default_kind": ["low"],
    "queues": [
        {"batch": "reports"},
        {"batch": []},
        {"batch": [""]},
        {"slow": ["reports"]},
        {"batch": ["q"], "interactive": ["q"]},
        {"batch": ["q", "q"]},
        ["reports"],
    ],
    "kinds": [{"reports.*": "low"}, {1: "batch"}],
    "batch_share": [0.0, 0.51, "0.2", math.nan, True],
    "aged_share": [0.1, 0.6],
    "share_unit": ["slots"],
    "reserve": [-1, 1.5, "automatic", True],
    "reserve_min": [-1],
    "reserve_target": [0.0, 1.0],
    "reserve_wait_seconds": [-0.1],
    "batch_max_slots": [0],
    "interactive_max_slots": [0],
    "protect_backlog": [-1, 2.5],
    "protect_wait_seconds": [0.049],
    "protect_hold_seconds": [-1],
    "batch_max_wait_seconds": [0],
    "lookahead_seconds": [-1, math.inf],
    "sensor_interval_seconds": [0.24],
    "hold_max_seconds": [0.9],
    "front_queues": [0, "no"],
    "batch_retry_max_seconds": [0, -1, math.inf],
    "batch_retry_budget": [0, 1.1, True],
    "yield_min_seconds": [0, 0.05, None],
    "yield_max_overhead": [0, 1.5, None],
    "interactive_timeout_seconds": [0, -1, math.inf, "3s"],
    "batch_timeout_seconds": [0, math.nan],
    "interactive_max_backlog": [0, -1, 1.5, "10", True],
    "batch_max_backlog": [0, True],
    "interactive_max_wait_seconds": [0, -1, math.inf],
    "deduplicate_seconds": [0, -1, math.inf, "60"],
    "state_url": ["", 6379],
    "interactive_time_limit": [0, math.inf],
    "batch_time_limit": [-1],
    "interactive_shards": [0, 65, True],
    "batch_shards": [0, "16", None],
    "tenant_hand": [0, 65, 1.5],
    "tenant_turns": [0, "yes", None],
    "tenant_weights": [
        {"acme": 0},
        {"acme": -1},
        {"acme": 1e-9},
        {"acme": 1e9},
        {"": 1},
        {"acme": True},
        {3: 1},
        ["acme"],
    ],
    "tenant_max_running": [0, 1.5, True],
    "tenant_hash_key": ["short", 16],
    "load_probe": ["probe", "http://vllm:8000", "", 7],
    "load_probe_seconds": [0, 0.05, None],
    "engine_batch_share": [0, 0.21, "0.1"],
    "metrics_port": [0, 65536, "9540", True],
    "metrics_host": ["", None],
    "log_tasks": [-0.1, 1.1, "all"],
    "record": ["redsi", "shop", ""],
    "record_sample": [0, 1.1],
    "record_megabytes": [0.5],
    "resources": [
        ["openai"],
        {"openai": 8},
        {"openai": {"max_runing": 8}},
        {"openai": {"max_running": 0}},
        {"openai": {"requests_per_minute": 0}},
        {"openai": {"tokens_per_minute": True}},
        {"openai": {"interactive_reserve": 1.0}},
        {"openai": {"burst_seconds": 61.0}},
        {"open ai": {}},
        {"kind:batch": {"max_running": 1}},
        {7: {}},
    ],
    "uses": [{"reports.*": 7}, {"reports.*": []}, {"reports.*": [""]}, {7: "openai"}, ["openai"]],
    "interactive_max_running": [0, 1.5, True],
    "batch_max_running": [0, "10"],
    "before_batch": ["", 7, "a b"],
    "waiting_room": [0, 10_001, None, 1.5],
    "before_batch_seconds": [0, 61, None],
    "before_batch_on_error": ["ignore", None],
}


def refusal(conf: Any = None, overrides: Any = None, environ: Any = None) -> str:
    with pytest.raises(SettingsError) as caught:
        FairSettings.load({} if conf is None else conf, overrides or {}, environ or {})
    return str(caught.value)


def test_every_setting_has_an_accepted_and_a_refused_value() -> None:
    assert set(FairSettings.model_fields) == set(ACCEPTED) == set(REFUSED)


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in ACCEPTED.items() for v in vs])
def test_a_good_value_is_accepted(name: str, value: Any) -> None:
    settings = FairSettings.load({name: value}, {}, {})
    expected = {"batch": ["reports"]} if value == {"batch": ("reports",)} else value
    got = getattr(settings, name)
    if name == "resources":
        got = {name: one.model_dump(exclude_unset=True) for name, one in got.items()}
    assert (got.get_secret_value() if name in SECRETS and got else got) == expected


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in REFUSED.items() for v in vs])
def test_a_bad_value_is_refused_with_its_name_what_was_expected_what_came_and_a_cure(
    name: str, value: Any
) -> None:
    message = refusal({name: value})
    field = FairSettings.model_fields[name]
    got = "something else" if name in SECRETS else repr(value)
    assert f"app.conf.fair['{name}']: expected {field.description}, got {got}" in message
    assert message.endswith(")")  # the cure
    assert "pydantic" not in message


def test_every_problem_is_told_at_once() -> None:
    message = refusal({"mode": "x", "batch_share": 2.0, "nonsense": 1, "queues": {"batch": []}})
    for name in ("mode", "batch_share", "nonsense", "queues"):
        assert f"app.conf.fair['{name}']" in message


def test_what_is_wrong_with_a_resource_is_said_by_name() -> None:
    message = refusal({"resources": {"openai": {"max_runing": 8}, "gpu": {"max_running": 0}}})
    assert "'openai' can't have 'max_runing'; did you mean 'max_running'?" in message
    assert "max_running of 'gpu': expected a number of tasks from 1, or none, got 0" in message


def test_one_name_of_a_resource_is_a_list_of_one() -> None:
    settings = FairSettings.load({"uses": {"a.*": "openai", "b": ["x", "gpu", "x"]}}, {}, {})
    assert settings.uses == {"a.*": ("openai",), "b": ("gpu", "x")}


def test_the_problems_are_values_too() -> None:
    with pytest.raises(SettingsError) as caught:
        FairSettings.load({"mode": "x", "reserve": -1}, {}, {})
    assert len(caught.value.problems) == 2
    assert isinstance(caught.value, FairError)
    assert isinstance(caught.value, ValueError)


def test_a_misspelt_name_gets_the_nearest_one() -> None:
    assert "no setting 'batch_shre'; did you mean 'batch_share'?" in refusal({"batch_shre": 0.2})


def test_a_name_like_no_other_gets_the_list() -> None:
    assert "no setting 'zzz'; docs/settings.md lists them all" in refusal({"zzz": 1})


def test_a_misspelt_kind_gets_the_nearest_one() -> None:
    assert "did you mean 'batch'?" in refusal({"kinds": {"reports.*": "bacth"}})


def test_something_else_than_a_dict_is_refused() -> None:
    assert "app.conf.fair: expected a dict of settings, got [1]" in refusal([1])


def test_settings_are_frozen() -> None:
    with pytest.raises(pydantic.ValidationError):
        FairSettings().batch_share = 0.3  # type: ignore[misc]


def test_environment_beats_keyword_beats_configuration_beats_default() -> None:
    conf = {"batch_share": 0.1, "reserve": 1, "mode": "observe"}
    overrides = {"batch_share": 0.3, "reserve": 2}
    settings = FairSettings.load(conf, overrides, {"CELERY_FAIR__BATCH_SHARE": "0.4"})
    assert (settings.batch_share, settings.reserve) == (0.4, 2)
    assert (settings.mode, settings.share_unit) == ("observe", "seconds")


def test_each_source_is_named_when_its_value_is_bad() -> None:
    message = refusal({"mode": "x"}, {"reserve": -1}, {"CELERY_FAIR__BATCH_SHARE": "2"})
    assert "app.conf.fair['mode']: " in message
    assert "Fair(reserve=…): " in message
    assert "CELERY_FAIR__BATCH_SHARE: expected a share in (0, 0.5], got 2" in message


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("enabled", "false", False),
        ("enabled", "0", False),
        ("enabled", " OFF ", False),
        ("enabled", "no", False),
        ("enabled", "True", True),
        ("enabled", "1", True),
        ("mode", "observe", "observe"),
        ("reserve", "auto", "auto"),
        ("reserve", "2", 2),
        ("batch_share", ".3", 0.3),
        ("protect_wait_seconds", "1", 1.0),
        ("batch_max_slots", "none", None),
        ("aged_share", "None", None),
        ("queues", '{"batch": ["reports"]}', {"batch": ["reports"]}),
        ("kinds", '{"reports.*": "batch"}', {"reports.*": "batch"}),
    ],
)
def test_the_environment_is_read_leniently(name: str, text: str, value: Any) -> None:
    settings = FairSettings.load({}, {}, {f"CELERY_FAIR__{name.upper()}": text})
    assert getattr(settings, name) == value


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("ENABLED", "maybe"),
        ("RESERVE", "none"),
        ("BATCH_SHARE", "a fifth"),
        ("QUEUES", "reports"),
    ],
)
def test_a_bad_variable_is_refused_by_its_own_name(variable: str, text: str) -> None:
    assert f"CELERY_FAIR__{variable}: expected " in refusal(
        environ={f"CELERY_FAIR__{variable}": text}
    )


def test_an_unknown_variable_only_warns_since_the_environment_is_shared() -> None:
    with pytest.warns(FairWarning, match=r"CELERY_FAIR__MODEE is ignored.*did you mean 'mode'\?"):
        settings = FairSettings.load({}, {}, {"CELERY_FAIR__MODEE": "observe"})
    assert settings == FairSettings()


def test_an_empty_variable_is_not_set() -> None:
    settings = FairSettings.load({"mode": "observe"}, {}, {"CELERY_FAIR__MODE": " "})
    assert settings.mode == "observe"


def test_variables_of_others_are_left_alone() -> None:
    """Kubernetes injects such names for a service called celery-fair, and click has its own."""
    others = {"CELERY_FAIR_SERVICE_HOST": "10.0.0.1", "CELERY_FAIR_MODE": "x", "PATH": "/"}
    assert FairSettings.load({}, {}, others) == FairSettings()


def test_the_policy_gets_its_part() -> None:
    policy = FairSettings.load({"batch_share": 0.3, "reserve": 2}, {}, {}).policy(4)
    assert (policy.batch_share, policy.reserve, policy.prefetch_multiplier) == (0.3, 2, 4)


def test_the_policy_knows_no_setting_by_another_name() -> None:
    theirs = set(FairSettings().policy(4).__dataclass_fields__) - {"prefetch_multiplier"}
    assert theirs <= set(FairSettings.model_fields)


def test_with_a_hash_key_weights_are_for_names_or_for_all():
    key = {"tenant_hash_key": "0123456789abcdef"}
    assert FairSettings.load(key, {"tenant_weights": {"acme": 3, "*": 2}}, {}).tenant_weights
    assert "from names or '*'" in refusal({**key, "tenant_weights": {"acme-*": 3}})
