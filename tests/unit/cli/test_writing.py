"""Text for outputs that can't take all of it."""

from __future__ import annotations

import io
import sys
from functools import partial

import click
import pytest

from celery_fair.cli.writing import IN_ASCII, write_with_any_encoding

print_it = partial(print, end="", flush=True)


@pytest.fixture
def written(monkeypatch):
    """``written(text, encoding)``: the bytes that come of printing it."""

    def written(text, encoding, write=print_it):
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding))
        write_with_any_encoding()
        write(text)
        return raw.getvalue()

    return written


def test_unicode_is_written_as_it_is(written):
    assert written("≤ 5 ms – …", "utf-8").decode() == "≤ 5 ms – …"


def test_ascii_has_signs_that_look_alike_in_as_many_columns(written):
    assert written("≤ 5 ms – … ▁█", "ascii") == b"< 5 ms - . 18"


def test_click_takes_no_ascii_for_a_mistake_and_writes_no_unicode_to_it(written):
    assert written("0.2 → 0.3", "ascii", partial(click.echo, nl=False)) == b"0.2 > 0.3"
    assert written("0.2 → 0.3", "utf-8", partial(click.echo, nl=False)).decode() == "0.2 → 0.3"


def test_what_has_no_like_is_a_question_mark(written):
    assert written("名", "ascii") == b"?"


def test_what_an_encoding_has_is_left_to_it(written):
    assert written("5\N{NO-BREAK SPACE}ms ≤", "latin-1") == b"5\xa0ms <"


def test_no_sign_takes_more_room_than_the_one_it_stands_for():
    assert all(len(chr(sign)) == 1 for sign in IN_ASCII.values())
