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

GOOD = {"kind": "batch", "first_published": 100.0, "ready_at": 160.0}


def read(**changes: Any) -> FairHeader | None:
    return FairHeader.read({"fair": {**GOOD, **changes}})


def test_what_is_written_is_read() -> None:
    header = FairHeader("batch", 100.0, 160.0, "request-1", "acme", covers_children=True)
    assert FairHeader.read({"fair": json.loads(json.dumps(header.as_dict()))}) == header


def test_what_says_nothing_isnt_written() -> None:
    assert FairHeader("batch", 100.0, 160.0).as_dict() == GOOD


def test_a_clock_an_hour_off_is_accepted_as_it_is() -> None:
    header = read(first_published=1_000_000_000.0 - 3600, ready_at=1_000_000_000.0 + 3600)
    assert header == FairHeader("batch", 999_996_400.0, 1_000_003_600.0)


@pytest.mark.parametrize("headers", [None, {}, {"other": 1}, [], "fair", 7, {"fair": None}])
def test_no_header_is_none(headers: Any) -> None:
    assert FairHeader.read(headers) is None


@pytest.mark.parametrize("fair", [[], "batch", 1, {}, [["kind", "batch"]], {"kind": "batch"}])
def test_a_header_of_another_shape_is_none(fair: Any) -> None:
    assert FairHeader.read({"fair": fair}) is None


@pytest.mark.parametrize("kind", ["Batch", "", None, 1, True, ["batch"], {"batch": 1}, b"batch"])
def test_an_unknown_kind_is_no_header(kind: Any) -> None:
    assert read(kind=kind) is None


BAD_TIMES = [None, "1", True, math.nan, math.inf, -math.inf, -1.0, 1e300, 10**400, [], {}]


@pytest.mark.parametrize("bad", BAD_TIMES)
def test_a_bad_time_takes_the_value_of_the_other(bad: Any) -> None:
    assert read(first_published=bad) == FairHeader("batch", 160.0, 160.0)
    assert read(ready_at=bad) == FairHeader("batch", 100.0, 100.0)


@pytest.mark.parametrize("bad", BAD_TIMES)
def test_two_bad_times_are_no_header(bad: Any) -> None:
    assert read(first_published=bad, ready_at=bad) is None


@pytest.mark.parametrize("bad", [1, 1.5, True, [], {}, b"x", ""])
def test_a_bad_identifier_is_dropped(bad: Any) -> None:
    assert read(request_id=bad, tenant=bad) == FairHeader("batch", 100.0, 160.0)


def test_identifiers_are_cut_to_256() -> None:
    header = read(request_id="r" * 10_000, tenant="t" * 256)
    assert header is not None
    assert (header.request_id, header.tenant) == ("r" * 256, "t" * 256)


def test_unknown_fields_are_left_alone() -> None:
    assert read(colour="red") == FairHeader("batch", 100.0, 160.0)


@pytest.mark.parametrize("value", [1, "true", [True]])
def test_only_true_covers_children(value: Any) -> None:
    header = read(covers_children=value)
    assert header is not None
    assert not header.covers_children


class Hostile(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RecursionError

    def __iter__(self) -> Iterator[str]:
        raise MemoryError

    def __len__(self) -> int:
        raise OverflowError


def test_a_mapping_that_raises_is_no_header() -> None:
    assert FairHeader.read(Hostile()) is None
    assert FairHeader.read({"fair": Hostile()}) is None


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
fields = st.sampled_from(["kind", "first_published", "ready_at", "request_id", "tenant"])
near_misses = st.dictionaries(fields, anything | st.sampled_from(["batch", "interactive", 1e9]))


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
