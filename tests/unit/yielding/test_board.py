"""The board: who is asked, and that nobody else is."""

from __future__ import annotations

import gc
import os
import sys
from itertools import pairwise

import pytest

from celery_fair.yielding.board import Board, digest_of


@pytest.fixture
def board():
    return Board(4)


def test_one_that_is_asked_sees_it_and_the_next_in_its_cell_does_not(board):
    number = board.enter(2, digest_of("first"), 10.0)
    [cell] = board.in_use(4)
    assert (cell.number, cell.digest, cell.entered_at) == (2, digest_of("first"), 10.0)
    board.ask(cell)
    assert board.bytes[board.at(2)] == number
    board.leave(2)
    assert board.in_use(4) == []
    after = board.enter(2, digest_of("second"), 11.0)
    assert board.bytes[board.at(2)] != after
    board.ask(cell)  # too late: meant for the first
    assert board.bytes[board.at(2)] != after


def test_the_numbers_of_a_cell_go_round_and_never_are_none(board):
    numbers = [board.enter(1, digest_of(str(n)), 0.0) for n in range(600)]
    assert set(numbers) == set(range(1, 256))
    assert all(one != after for one, after in pairwise(numbers))


def test_withdrawing_takes_back_ones_own_question_only(board):
    board.enter(1, digest_of("first"), 0.0)
    [cell] = board.in_use(4)
    board.ask(cell)
    board.withdraw(cell)
    assert board.bytes[board.at(1)] == 0
    number = board.enter(1, digest_of("second"), 0.0)
    [other] = board.in_use(4)
    board.ask(other)
    board.withdraw(cell)
    assert board.bytes[board.at(1)] == number


def test_all_are_asked_also_those_that_come_to_it_later(board):
    early = board.enter(1, digest_of("early"), 0.0)
    board.ask_all()
    late = board.enter(2, digest_of("late"), 0.0)
    assert [board.bytes[board.at(cell)] for cell in (1, 2)] == [early, late]


def test_a_reaction_is_told_of_the_one_that_was_asked(board):
    board.enter(1, digest_of("one"), 0.0)
    [cell] = board.in_use(4)
    assert board.reacted_at(cell) is None
    board.react(1, 12.5)
    board.leave(1)
    assert board.reacted_at(cell) == 12.5
    board.enter(1, digest_of("two"), 13.0)
    assert board.reacted_at(cell) is None


def test_cells_are_taken_from_the_first_on_and_given_back(board):
    assert [board.take() for _ in range(5)] == [1, 2, 3, 4, None]
    board.give_back(3)
    assert board.take() == 3


def test_only_as_many_cells_are_looked_at_as_the_pool_has_slots(board):
    board.enter(3, digest_of("far"), 0.0)
    assert board.in_use(2) == []
    assert len(board.in_use(3)) == 1
    assert len(board.in_use(99)) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_and_its_parent_share_it(board):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        number = board.enter(1, digest_of("child"), 1.0)
        os.write(write, b"!")
        while board.bytes[board.at(1)] != number:
            pass
        board.react(1, 7.0)
        os._exit(0)
    os.read(read, 1)
    assert board.seen
    [cell] = board.in_use(1)
    board.ask(cell)
    os.waitpid(child, 0)
    assert board.reacted_at(cell) == 7.0
    os.close(read)
    os.close(write)


def test_a_process_that_inherits_nothing_finds_it_by_its_path():
    board, path = Board.named(4)
    there = Board.at_path(path)
    assert there.cells == 4
    number = there.enter(2, digest_of("elsewhere"), 3.0)
    [cell] = board.in_use(4)
    board.ask(cell)
    assert there.bytes[there.at(2)] == number


def test_a_board_goes_with_its_process():
    board, path = Board.named(4)
    del board
    gc.collect()
    with pytest.raises(OSError, match=r"."):
        Board.at_path(path)


def test_to_look_allocates_nothing(board):
    """A byte of the board and a number under 256 are objects that Python has already."""
    number, at, cells = board.enter(1, digest_of("one"), 0.0), board.at(1), board.bytes
    before = sys.getallocatedblocks()
    for _ in range(10_000):
        if cells[at] == number:
            break
    assert sys.getallocatedblocks() - before < 50


def test_digests_differ_and_are_never_none():
    digests = {digest_of(str(n)) for n in range(1000)}
    assert len(digests) == 1000
    assert 0 not in digests
