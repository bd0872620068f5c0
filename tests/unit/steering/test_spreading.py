"""How workers learn what they have missed, without asking one of them all at once."""

from __future__ import annotations

import pytest

from celery_fair.steering import EVERYBODY, Order, Orders
from celery_fair.worker.steering.spreading import (
    ANSWER_SECONDS,
    ASK_SECONDS,
    RETRY_SECONDS,
    TRIES,
    Spreading,
    counter_of,
)


def orders(*counters):
    return Orders(
        Order(EVERYBODY, f"pause:batch:q{n}", True, 0.0, n, "a", "ann", 0.0) for n in counters
    )


class Site:
    """Workers whose messages go through at once, on a clock of the test's own."""

    def __init__(self, documents):
        self.now = 0.0
        self.documents = dict(documents)
        self.sent = []
        self.workers = {
            name: Spreading(name, self._publish_of(name)) for name in self.documents
        }  # fmt: skip

    def _publish_of(self, sender):
        def publish(command, arguments, destination):
            self.sent.append((command, sender))
            others = [name for name in destination or self.workers if name in self.workers]
            others = [name for name in others if name != sender]
            for name in others:
                if command == "fair_orders":
                    self.workers[name].asked()
                else:
                    told = [Order.of(order) for order in arguments["orders"]]
                    self.documents[name] = self.documents[name].merge(told, arguments["counter"])
                    self.workers[name].told()

        return publish

    def speak(self):
        words = {
            name: str(document.version) if document.counter else ""  # as `Steering.version`
            for name, document in self.documents.items()
        }
        for worker in self.workers.values():
            worker.hear(words)

    def run(self, seconds, *, speaking=True):
        for _ in range(round(seconds / 0.1)):
            self.now += 0.1
            if speaking and round(self.now * 10) % 10 == 0:
                self.speak()
            for name, worker in self.workers.items():
                worker.tick(self.documents[name], self.now)

    def count(self, command):
        return sum(sent == command for sent, _ in self.sent)


@pytest.mark.parametrize("own", [Orders(), orders(1)])
def test_a_worker_that_was_away_learns(own):
    site = Site({"w1": orders(1, 2), "w2": orders(1, 2), "back": own})
    site.run(4)
    assert site.documents["back"] == orders(1, 2)
    assert site.count("fair_orders") <= 2


def test_those_who_know_different_orders_end_with_all_of_them():
    site = Site({"w1": orders(1, 3), "w2": orders(2, 3)})
    site.run(6)
    assert site.documents["w1"] == site.documents["w2"] == orders(1, 2, 3)


def test_who_has_newer_orders_asks_nobody():
    site = Site({"w1": orders(5), "w2": orders(1)})
    site.run(0.1, speaking=False)
    site.speak()
    site.workers["w1"].tick(site.documents["w1"], 1.0)
    assert site.sent == []


def test_nothing_is_said_while_all_know_the_same():
    site = Site({"w1": orders(1), "w2": orders(1)})
    site.run(30)
    assert site.sent == []


def test_of_a_thousand_that_hear_of_an_order_few_ask_and_fewer_answer():
    site = Site({"first": orders(1), **{f"w{n}": Orders() for n in range(1000)}})
    site.run(15)
    assert all(document == orders(1) for document in site.documents.values())
    assert site.count("fair_orders") < 100, "and not a thousand"
    assert site.count("fair_order") <= 5


def test_a_version_that_never_comes_to_be_ours_is_asked_for_a_few_times_only():
    site = Site({"w1": Orders()})
    site.workers["w1"].hear({"strange": "7:from-another-language"})
    site.run(TRIES * ASK_SECONDS + 20, speaking=False)
    assert site.count("fair_orders") == TRIES
    assert not site.workers["w1"].is_behind(Orders())


def test_one_that_was_cut_off_for_long_is_asked_again_once_it_is_back():
    """Its last word is still there, and nobody hears what it is asked."""
    site = Site({"away": orders(1), "new": Orders()})
    ears = site.workers.pop("away")
    site.run(TRIES * ASK_SECONDS + 10)
    site.workers["away"] = ears
    site.run(RETRY_SECONDS)
    assert site.documents["new"] == orders(1)


def test_answers_are_paced_however_many_ask():
    site = Site({"w1": orders(1)})
    for _ in range(50):
        site.workers["w1"].asked()
        site.run(0.1, speaking=False)
    assert site.count("fair_order") <= 5.0 / ANSWER_SECONDS + 1


def test_where_no_words_are_heard_a_worker_that_begins_asks_all():
    site = Site({"w1": orders(1), "new": Orders()})
    site.workers["new"].ask_all()
    site.run(3, speaking=False)
    assert site.documents["new"] == orders(1)


def test_who_knows_no_orders_has_no_answer():
    site = Site({"w1": Orders(), "new": Orders()})
    site.workers["new"].ask_all()
    site.run(3, speaking=False)
    assert site.count("fair_order") == 0


@pytest.mark.parametrize("version", ["", "x:1", "-1:a", "9" * 40 + ":a", "¹:a", ":"])
def test_a_version_that_is_none_counts_for_nothing(version):
    assert counter_of(version) == 0
