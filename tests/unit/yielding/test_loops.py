"""Loops that yield: what is done stays done, what isn't comes again, and nothing else does."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair import BadOption, Fair
from celery_fair.errors import BadState
from celery_fair.yielding.board import Board
from celery_fair.yielding.run import Run, running
from celery_fair.yielding.words import HEADER, LIMIT, Yielding, decode, encode

fair = Fair()


class Task:
    """Runs a function again and again, as its continuations would, until it returns."""

    def __init__(self, function):
        self.function = function
        self.headers = {}
        self.runs = 0
        self.board = Board(1)
        self.worker = SimpleNamespace(enabled=True, board=self.board, looks=None)
        self.asks = set()
        """Before which looks it is asked, counted over all runs."""
        self.looks = 0

    def run_once(self):
        request = SimpleNamespace(
            headers=self.headers, id="an-id", called_directly=False, is_eager=False
        )
        run = Run(self.worker, None, request)
        token = running.set(run)
        self.runs += 1
        try:
            return self.function()
        finally:
            running.reset(token)
            run.leave()

    def look(self):
        """Called by the function under test before each point at which it may yield."""
        run = running.get()
        run.entered()
        if self.looks in self.asks:
            [cell] = self.board.in_use(1)
            self.board.ask(cell)
        self.looks += 1

    def run(self, asks=()):
        self.asks = set(asks)
        while True:
            try:
                return self.run_once()
            except Yielding as yielding:
                self.headers = {HEADER: encode(yielding.saved, "the state")}


def test_outside_of_a_worker_it_is_a_loop_like_any_other():
    assert list(fair.yielding([1, 2, 3])) == [1, 2, 3]
    assert list(fair.yielding(iter("ab"))) == ["a", "b"]
    assert list(fair.yielding(lambda after: [after, 1], cursor=lambda item: item)) == [None, 1]
    assert not fair.should_yield()
    assert fair.checkpoint(1) is None
    assert fair.saved(default=7) == 7


@given(length=st.integers(0, 12), asks=st.sets(st.integers(0, 30)), as_list=st.booleans())
def test_each_item_is_done_once_whenever_it_is_asked(length, asks, as_list):
    done = []

    def function():
        items = list(range(length)) if as_list else iter(range(length))
        for item in fair.yielding(items):
            task.look()
            done.append(item)
        return "end"

    task = Task(function)
    assert task.run(asks) == "end"
    assert done == list(range(length))


@given(asks=st.sets(st.integers(0, 30)))
def test_a_cursor_is_where_the_next_run_goes_on(asks):
    rows, begun, done = {3: "c", 5: "e", 8: "h", 9: "i"}, [], []

    def after(key):
        begun.append(key)
        return sorted(one for one in rows if key is None or one > key)

    def function():
        for key in fair.yielding(after, cursor=lambda key: key):
            task.look()
            done.append(key)

    task = Task(function)
    task.run(asks)
    assert done == sorted(rows)
    assert begun[0] is None
    assert len(begun) == task.runs


@given(asks=st.sets(st.integers(0, 30)))
def test_a_sum_is_carried_through_by_its_state(asks):
    def function():
        total = fair.saved(default=0)
        for item in fair.yielding(range(10), state=lambda: total):  # noqa: B023
            task.look()
            total += item
        return total

    task = Task(function)
    assert task.run(asks) == 45


@given(asks=st.sets(st.integers(0, 60)))
def test_loops_one_after_the_other_and_in_each_other_go_on_where_they_were(asks):
    done = []

    def function():
        for letter in fair.yielding("ab"):
            for digit in fair.yielding(range(3)):
                task.look()
                done.append((letter, digit))
            for digit in fair.yielding(range(2)):
                task.look()
                done.append((letter, "again", digit))
        for digit in fair.yielding(range(3)):
            task.look()
            done.append(digit)

    task = Task(function)
    task.run(asks)
    assert done == [
        *[("a", n) for n in range(3)], ("a", "again", 0), ("a", "again", 1),
        *[("b", n) for n in range(3)], ("b", "again", 0), ("b", "again", 1), 0, 1, 2,
    ]  # fmt: skip


@given(asks=st.sets(st.integers(0, 30)))
def test_a_loop_that_was_left_by_break_is_over(asks):
    done = []

    def function():
        for item in fair.yielding(range(100)):
            if item == 3:
                break
            task.look()
            done.append(item)
        for item in fair.yielding("xy"):
            task.look()
            done.append(item)

    task = Task(function)
    task.run(asks)
    assert done == [0, 1, 2, "x", "y"]


@given(asks=st.sets(st.integers(0, 30)))
def test_checkpoints_save_what_they_are_given(asks):
    done = []

    def function():
        state = fair.saved(default={"at": 0, "sum": 0})
        while state["at"] < 8:
            task.look()
            done.append(state["at"])
            state = {"at": state["at"] + 1, "sum": state["sum"] + state["at"]}
            fair.checkpoint(state)
        return state["sum"]

    task = Task(function)
    assert task.run(asks) == sum(range(8))
    assert done == list(range(8))


@given(asks=st.sets(st.integers(0, 30)))
def test_a_checkpoint_behind_a_loop_knows_that_the_loop_is_over(asks):
    done = []

    def function():
        for item in fair.yielding("ab"):
            task.look()
            done.append(item)
        task.look()
        fair.checkpoint("between")
        for item in fair.yielding("cd"):
            task.look()
            done.append(item)

    task = Task(function)
    task.run(asks)
    assert done == ["a", "b", "c", "d"]


def test_an_item_whose_body_is_left_by_a_checkpoint_comes_again():
    done = []

    def function():
        for item in fair.yielding("ab"):
            done.append(item)
            task.look()
            fair.checkpoint(item)
        return fair.saved()

    task = Task(function)
    assert task.run({0}) == "b"
    assert done == ["a", "a", "b"]


def test_the_last_item_of_a_sequence_is_no_reason_to_come_again():
    def function():
        for _ in fair.yielding([1, 2]):
            task.look()

    task = Task(function)
    task.run({1})
    assert task.runs == 1


def test_an_error_in_the_body_is_the_tasks_own_and_except_exception_ends_no_yield():
    def function():
        try:
            for _ in fair.yielding(range(3)):
                task.look()
        except Exception:
            return "swallowed"
        return "through"

    task = Task(function)
    assert task.run({0, 1}) == "through"
    assert task.runs == 3

    def failing():
        for item in fair.yielding(range(3)):
            raise ValueError(item)

    with pytest.raises(ValueError, match="0"):
        Task(failing).run()


def test_async_for_goes_on_as_for_does():
    done = []

    async def items(after=None):
        for n in range(5):
            await asyncio.sleep(0)
            if after is None or n > after:
                yield n

    def function(make, **options):
        async def loop():
            async for item in fair.yielding(make, **options):
                task.look()
                done.append(item)

        asyncio.run(loop())

    task = Task(lambda: function(items, cursor=lambda item: item))
    task.run({1, 3})
    assert (done, task.runs) == (list(range(5)), 3)
    done.clear()
    task = Task(lambda: function(items()))
    task.run({0})
    assert (done, task.runs) == (list(range(5)), 2)


@given(asks=st.sets(st.integers(0, 30)))
def test_an_async_loop_that_was_left_by_break_is_over_at_once(asks):
    done = []

    async def items(after):
        for n in range(100) if after is None else range(after + 1, 100):
            yield n

    async def loops():
        async for item in fair.yielding(items, cursor=lambda item: item):
            if item == 2:
                break
            task.look()
            done.append(item)
        async for item in fair.yielding(items, cursor=lambda item: item):
            if item == 5:
                break
            await asyncio.sleep(0)
            task.look()
            done.append(-item)

    task = Task(lambda: asyncio.run(loops()))
    task.run(asks)
    assert done == [0, 1, 0, -1, -2, -3, -4]


def test_a_thread_that_outlives_its_run_asks_of_no_other():
    left, after = [], []

    def leaves_a_thread(uses):
        if uses:
            fair.should_yield()
        left.append(copy_context())

    for uses in (False, True):
        task = Task(lambda: leaves_a_thread(uses))  # noqa: B023
        task.worker.board = task.board = Board(2)
        task.run()

        def asked(board=task.board):
            run = running.get()
            run.entered()
            board.ask_all()
            other = left[-1].run(lambda: (fair.should_yield(), fair.checkpoint(1), fair.saved()))
            after.append((other[0], run.is_asked(), len(board.in_use(2))))
            return other

        task.function = asked
        task.run()
    assert after == [(False, True, 1)] * 2


def test_a_cursor_needs_a_function_of_it():
    with pytest.raises(BadOption, match="takes the last cursor"):
        fair.yielding([1], cursor=lambda item: item)


@pytest.mark.parametrize("state", [object(), "x" * LIMIT, {1: {2: object()}}], ids=type)
def test_a_state_that_cannot_be_saved_is_an_error_at_once_and_tells_nothing_of_it(state):
    with pytest.raises(BadState, match="expected JSON of at most 32768 bytes") as caught:
        Task(lambda: fair.checkpoint(state)).run()
    assert "xx" not in str(caught.value)


def test_a_cursor_that_cannot_be_saved_is_an_error_after_the_first_item():
    def function():
        for _ in fair.yielding(lambda after: range(3), cursor=lambda item: object()):
            pass

    with pytest.raises(BadState, match="yielding"):
        Task(function).run()


@pytest.mark.parametrize(
    "header",
    [
        None,
        1,
        "",
        "{",
        "[]",
        '{"loops": 1}',
        '{"loops": [1]}',
        '{"loops": ["a", 1, 2]}',
        "x" * 40_000,
    ],
    ids=str,
)
def test_a_header_that_is_none_of_ours_starts_from_the_beginning(header):
    assert decode({HEADER: header}).get("state") is None
    task = Task(lambda: list(fair.yielding(range(2))))
    task.headers = {HEADER: header}
    assert task.run_once() == [0, 1]
