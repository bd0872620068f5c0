"""The order in which test files begin."""

from __future__ import annotations

from types import SimpleNamespace

from tests.longest_first import RANKS, TESTS, rank


def test_the_longest_files_come_first_and_all_others_stay_in_order():
    longest, second, *_ = RANKS
    files = [TESTS / "unit/test_one.py", second, longest, longest, TESTS / "unit/test_two.py"]
    items = [SimpleNamespace(path=path, number=number) for number, path in enumerate(files)]
    items.sort(key=rank)
    assert [item.number for item in items] == [2, 3, 1, 0, 4]


def test_each_file_that_is_listed_is_there():
    assert [path for path in RANKS if not path.exists()] == []
