"""The header: what is written is read, and nothing that comes in breaks the reader."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair import FairHeader


def read(kind: str = "batch", first: str = "100.0", **more: Any) -> FairHeader | None:
    """Read a header that says all this, and that it was ready at 160 unless told otherwise."""
    more = {"ready_at": 160.0, **more}
    return FairHeader.read({"fair": f"{kind} {first} {json.dumps(more)}"})


def test_what_is_written_is_read() -> None:
    header = FairHeader("batch", 100.0, 160.0, "request-1", "acme", True, inherited=True)
    line = header.as_line()
    assert line.startswith('batch 100.0 {"ready_at":160.0,"request_id":"request-1",')
    assert FairHeader.read({"fair": line}) == header


@pytest.mark.parametrize(
    "wild", ["a b\n{}", "\u65e5\u672c" * 128, '"' * 256, "\x00" * 256, "\U0001f600" * 256]
)
def test_whatever_text_is_written_is_read(wild: str) -> None:
    header = FairHeader("interactive", 1.25, 1.25, request_id=wild, tenant=wild)
    assert FairHeader.read({"fair": header.as_line()}) == header


def test_what_says_nothing_isnt_written() -> None:
    assert FairHeader("batch", 100.0, 100.0).as_line() == "batch 100.0"
    assert FairHeader("batch", 100.0, 160.0).as_line() == 'batch 100.0 {"ready_at":160.0}'


def test_a_time_keeps_all_its_digits() -> None:
    at = 1764457200.1234567
    header = FairHeader("batch", at, at)
    assert FairHeader.read({"fair": header.as_line()}) == header


def test_a_clock_an_hour_off_is_accepted_as_it_is() -> None:
    header = read(first="999996400", ready_at=1_000_000_000.0 + 3600)
    assert header == FairHeader("batch", 999_996_400.0, 1_000_003_600.0)


@pytest.mark.parametrize("headers", [None, {}, {"other": 1}, [], "fair", 7, {"fair": None}])
def test_no_header_is_none(headers: Any) -> None:
    assert FairHeader.read(headers) is None


@pytest.mark.parametrize(
    "fair",
    [[], "batch", "", " ", "batch ", 1, {}, b"batch 1", {"kind": "batch", "first_published": 1.0}],
)
def test_a_header_of_another_shape_is_none(fair: Any) -> None:
    assert FairHeader.read({"fair": fair}) is None


@pytest.mark.parametrize("kind", ["Batch", "", "urgent", "1", "interactive,batch", "b\xe4tch"])
def test_an_unknown_kind_is_no_header(kind: Any) -> None:
    assert read(kind=kind) is None


BAD_TIMES = [None, "1", True, math.nan, math.inf, -math.inf, -1.0, 1e300, 10**400, [], {}]
BAD_TEXTS = ["", "x", "None", "nan", "inf", "-inf", "-1.0", "1e300", "9" * 400, "[]", "0x10"]


@pytest.mark.parametrize("bad", BAD_TEXTS)
def test_without_its_first_publish_a_message_is_as_old_as_it_is_ready(bad: str) -> None:
    assert read(first=bad) == FairHeader("batch", 160.0, 160.0)


@pytest.mark.parametrize("bad", BAD_TIMES)
def test_without_a_time_of_its_own_a_message_was_ready_when_first_published(bad: Any) -> None:
    assert read(ready_at=bad) == FairHeader("batch", 100.0, 100.0)


@pytest.mark.parametrize("bad", BAD_TIMES)
def test_two_bad_times_are_no_header(bad: Any) -> None:
    assert read(first="never", ready_at=bad) is None


@pytest.mark.parametrize("more", ["{", "[]", "null", "1", "[" * 3_000, "{'ready_at': 160}", "\x00"])
def test_what_else_it_says_may_be_nonsense(more: str) -> None:
    assert FairHeader.read({"fair": f"batch 100 {more}"}) == FairHeader("batch", 100.0, 100.0)


def test_a_header_longer_than_any_written_is_none() -> None:
    assert read(tenant="t" * 8_192) is None


@pytest.mark.parametrize("bad", [1, 1.5, True, [], {}, None, ""])
def test_a_bad_identifier_is_dropped(bad: Any) -> None:
    assert read(request_id=bad, tenant=bad) == FairHeader("batch", 100.0, 160.0)


def test_identifiers_are_cut_to_256() -> None:
    header = read(request_id="r" * 3_000, tenant="t" * 256)
    assert header is not None
    assert (header.request_id, header.tenant) == ("r" * 256, "t" * 256)


def test_unknown_fields_are_left_alone() -> None:
    assert read(colour="red") == FairHeader("batch", 100.0, 160.0)


@pytest.mark.parametrize("value", [1, "true", [True]])
def test_only_true_covers_children_and_only_true_is_inherited(value: Any) -> None:
    header = read(covers_children=value, inherited=value)
    assert header is not None
    assert not header.covers_children
    assert not header.inherited


class Hostile(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RecursionError

    def __iter__(self) -> Iterator[str]:
        raise MemoryError

    def __len__(self) -> int:
        raise OverflowError


@pytest.mark.parametrize("bad", ["-1", "0", "true", "1.5", '"2"', "1e400", "9999999999999"])
def test_a_count_of_yields_is_a_sound_number_or_none(bad: str) -> None:
    found = FairHeader.read({"fair": f'batch 1764457200.0 {{"yields":{bad}}}'})
    assert found is not None
    assert found.yields == 0
    assert FairHeader.read({"fair": found._replace(yields=7).as_line()}).yields == 7


def test_a_mapping_that_raises_is_no_header() -> None:
    assert FairHeader.read(Hostile()) is None
    assert FairHeader.read({"fair": Hostile()}) is None


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
numbers = st.floats() | st.integers() | st.sampled_from([0, -1, 1e9, 4e9, 1e11, "1e9", None])
others = st.dictionaries(
    st.sampled_from(["ready_at", "request_id", "tenant", "covers_children", "inherited"]),
    anything | numbers,
)
kinds = st.sampled_from(["batch", "interactive", "urgent", ""]) | st.text()
near_misses = st.builds(
    lambda kind, first, more: f"{kind} {first} {more}",
    kinds,
    numbers | st.text(),
    others.map(str) | others.map(lambda more: json.dumps(more, default=str)) | st.text(),
)


@given(
    anything | near_misses.map(lambda fair: {"fair": fair}) | anything.map(lambda x: {"fair": x})
)
def test_reading_never_raises_and_gives_only_sound_values(headers: Any) -> None:
    header = FairHeader.read(headers)
    if header is None:
        return
    assert header.kind in ("interactive", "batch")
    assert 0 <= header.first_published < 1e11
    assert 0 <= header.ready_at < 1e11
    for text in (header.request_id, header.tenant):
        assert text is None or (isinstance(text, str) and 0 < len(text) <= 256)
