"""What is believed of a request, and which of the sources of its kind is the strongest."""

from __future__ import annotations

import logging
import time
from typing import Any
from uuid import UUID

import pytest
from celery import Celery

from celery_fair import Fair, SettingsError
from celery_fair.headers import MAX_TEXT
from celery_fair.integrations import RequestRules, batch_view, interactive_view, words

HEADERS = {"X-Fair-Kind": "batch", "X-Fair-Tenant": "acme", "X-Request-ID": "r1"}


class Web:
    """Serves a request in a rule's scope, as an integration does, and looks what it publishes."""

    def __init__(self, app: Celery, sent: Any) -> None:
        self.app, self.sent = app, sent

    def serve(
        self, rules: RequestRules, headers: Any = (), path: str = "/", mark: Any = None
    ) -> Any:
        def view() -> None:
            self.app.send_task("x")

        with rules.serving({"path": path}, path, dict(headers).get):
            (mark(view) if mark else view)()
        (message,) = self.sent()
        return message.kind, message.header.tenant, message.header.request_id


@pytest.fixture
def web(app: Celery, fair: Fair, sent: Any) -> Web:
    return Web(app, sent)


def test_nothing_is_believed_unless_told_to(web: Web) -> None:
    rules = RequestRules()
    assert not rules
    assert web.serve(rules, HEADERS) == ("interactive", None, None)


@pytest.mark.parametrize(
    ("trust", "expected"),
    [
        (True, ("batch", "acme", "r1")),
        (["kind"], ("batch", None, None)),
        ({"tenant", "request_id"}, ("interactive", "acme", "r1")),
        ([], ("interactive", None, None)),
    ],
)
def test_each_header_is_trusted_by_itself(web: Web, trust: Any, expected: Any) -> None:
    assert web.serve(RequestRules(trust_header=trust), HEADERS) == expected


def test_the_headers_can_have_other_names(web: Web) -> None:
    rules = RequestRules(
        trust_header=True, header="X-Lane", tenant_header="X-Org", request_id_header="X-Trace"
    )
    assert web.serve(rules, HEADERS) == ("interactive", None, None)
    assert web.serve(rules, {"X-Lane": "batch", "X-Org": "o", "X-Trace": "t"}) == (
        "batch",
        "o",
        "t",
    )


def test_the_strongest_that_says_a_kind_wins(web: Web) -> None:
    """A header, a callable, the decorator, the path."""

    def rules(answer: str | None) -> RequestRules:
        return RequestRules(trust_header=True, kind=lambda _: answer, paths={"/b": "batch"})

    told = {"X-Fair-Kind": "batch"}
    assert web.serve(rules("interactive"), told, mark=interactive_view)[0] == "batch"
    assert web.serve(rules("batch"), mark=interactive_view)[0] == "batch"
    assert web.serve(rules("interactive"), path="/b", mark=batch_view)[0] == "interactive"
    assert web.serve(rules(None), path="/b", mark=interactive_view)[0] == "interactive"
    assert web.serve(rules(None), path="/b")[0] == "batch"
    assert web.serve(rules(None))[0] == "interactive"


def test_paths_match_exactly_first_then_by_the_first_pattern(web: Web) -> None:
    paths = {"/reports/*": "batch", "/re*": "interactive", "/reports/now": "interactive"}
    rules = RequestRules(paths=paths)
    found = {p: web.serve(rules, path=p)[0] for p in ("/reports/a/b", "/reports/now", "/rest", "/")}
    assert found == {
        "/reports/a/b": "batch",
        "/reports/now": "interactive",
        "/rest": "interactive",
        "/": "interactive",
    }
    assert (
        web.serve(RequestRules(paths={"*": "batch", "/x": "interactive"}), path="/y")[0] == "batch"
    )
    assert web.serve(rules, path="/Reports/a")[0] == "interactive"


def test_a_long_path_of_a_stranger_takes_no_time(web: Web) -> None:
    rules = RequestRules(paths={"/*a*b*c*d*e*f*": "batch"})
    started = time.perf_counter()
    web.serve(rules, path="/" + "abcde" * 13_000)
    assert time.perf_counter() - started < 1


def test_callables_get_the_request_and_answer_for_it(web: Web) -> None:
    rules = RequestRules(
        kind=lambda request: "batch" if request["path"] == "/b" else None,
        tenant=lambda request: 7,
        request_id=lambda request: UUID(int=1),
    )
    assert web.serve(rules, path="/b") == ("batch", "7", str(UUID(int=1)))


def test_where_a_callable_says_the_tenant_no_header_does(web: Web) -> None:
    """Also where it answers None: that a visitor isn't logged in mustn't let the header through."""
    rules = RequestRules(trust_header=True, tenant=lambda _: None, request_id=lambda _: "own")
    assert web.serve(rules, HEADERS) == ("batch", None, "own")


@pytest.mark.parametrize(
    "answer", ["bulk", True, ["batch"], object()], ids=["word", "bool", "list", "object"]
)
def test_an_answer_that_is_no_kind_is_counted_and_said_without_its_value(
    web: Web, caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    caplog.set_level(logging.WARNING, "celery_fair")
    rules = RequestRules(kind=lambda _: answer)
    assert [web.serve(rules)[0] for _ in range(10)] == ["interactive"] * 10
    assert rules.ignored == {"the answer of kind=": 10}
    assert caplog.messages == [
        f"the answer of kind= was ignored ({times} so far in this process): "
        "expected 'interactive' or 'batch'"
        for times in (1, 10)
    ]


@pytest.mark.parametrize(
    "answer", [True, b"acme", ["acme"], "a" * 257, "a\nb", "a\x00", "\ud800", {"id": 1}]
)
def test_an_answer_that_is_no_identity_is_none(web: Web, answer: Any) -> None:
    rules = RequestRules(tenant=lambda _: answer, request_id=lambda _: answer)
    assert web.serve(rules) == ("interactive", None, None)
    assert rules.ignored == {"the answer of tenant=": 1, "the answer of request_id=": 1}


def test_a_tenant_of_the_applications_own_may_have_any_letters(web: Web) -> None:
    assert web.serve(RequestRules(tenant=lambda _: "Müller, 東京"))[1] == "Müller, 東京"
    assert web.serve(RequestRules(tenant=lambda _: ""))[1] is None


def test_a_callable_that_raises_doesnt_stop_the_request(
    web: Web, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "celery_fair")
    rules = RequestRules(kind=lambda request: request["secret"], paths={"/": "batch"})
    assert web.serve(rules)[0] == "batch"
    (message,) = caplog.messages
    assert message.endswith("it raised KeyError")
    assert "secret" not in message


def test_no_identity_is_longer_than_a_tasks_header_carries() -> None:
    assert words.MAX_TEXT == MAX_TEXT


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ({"trust_header": "false"}, "trust_header: expected True, False or a list of 'kind'"),
        ({"trust_header": ["knd"]}, "trust_header: expected"),
        ({"header": "X_Fair_Kind"}, "header: expected a header's name"),
        ({"tenant_header": "X:Y\r\n"}, "tenant_header: expected a header's name"),
        ({"request_id_header": "x-fair-kind"}, "request_id_header: expected a header of its own"),
        ({"kind": "batch"}, "kind: expected a callable"),
        ({"paths": ["/x"]}, "paths: expected a dict"),
        ({"paths": {"reports/*": "batch"}}, "paths: expected paths from / on, got 'reports/*'"),
        ({"paths": {"/x": "bulk"}}, "paths: expected 'interactive' or 'batch' for '/x'"),
        ({"paths": {"/x": None}}, "paths: expected 'interactive' or 'batch' for '/x'"),
    ],
)
def test_what_cant_be_used_is_named_at_the_start(rules: Any, problem: str) -> None:
    with pytest.raises(SettingsError, match=r"celery-fair can't use its settings") as error:
        RequestRules(**rules)
    (found,) = error.value.problems
    assert found.startswith(problem)


def test_a_callable_must_not_be_async() -> None:
    async def kind(request: Any) -> None: ...

    class Asks:
        async def __call__(self, request: Any) -> None: ...

    for ask in (kind, Asks()):
        with pytest.raises(SettingsError, match="kind: expected a callable that isn't async"):
            RequestRules(kind=ask)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(SettingsError) as error:
        RequestRules(trust_header=1, header="", tenant=3, paths={"x": "y"})  # type: ignore[arg-type]
    assert len(error.value.problems) == 5
