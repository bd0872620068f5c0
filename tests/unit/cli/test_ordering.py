"""Giving orders: asked, told and asked again, by workers that are made up."""

from __future__ import annotations

import json

import pytest
from celery.bin.base import CLIContext
from click.testing import CliRunner

from celery_fair.cli import fair, ordering
from celery_fair.errors import SettingsError
from celery_fair.settings import FairSettings
from celery_fair.steering import DRAIN, EVERYBODY, Order, Orders, pause_of, setting_of
from celery_fair.steering.making import make, pausing
from celery_fair.worker.steering.settings import LiveSettings, value_of

PLAIN = {"error": "plain Celery, since its app was given no Fair(app)"}


class Worker:
    """Follows orders as a real one does, and can be out of sorts."""

    def __init__(self, node, *, most_reserve=9, **trouble):
        self.node, self.most_reserve = node, most_reserve
        self.trouble = trouble
        self.orders, self.live = Orders(), LiveSettings(FairSettings(), self._check)
        self.asked = 0

    def _check(self, settings):
        if settings.reserve != "auto" and settings.reserve > self.most_reserve:
            raise SettingsError([f"expected reserve to be at most {self.most_reserve}"])

    def answer(self, orders=(), check=False, about=(), **_):
        self.asked += 1
        if self.asked >= self.trouble.get("silent_from", 99):
            return None
        orders = [Order.of(order) for order in orders]
        refusal = self._refusal(orders) if check else None
        if not check:
            self._take(orders)
            rival = self.trouble.get("rival")
            if orders and rival:
                self._take(make(self.orders, [rival], EVERYBODY, id="b", by="bob@ops", at=1.0))
        return {
            "version": str(self.orders.version), "counter": self.orders.counter,
            "started_at": 123.5, "not_in_force": self.trouble.get("not_in_force"),
            "about": {name: self._state(name) for name in about},
            "orders": [o.as_list() for o in self.orders if o.name in about],
            "queues": {"celery": "interactive", "reports": "batch"}, "refusal": refusal,
        }  # fmt: skip

    def _refusal(self, orders):
        mine = self.orders.merge(orders).of(self.node)
        try:
            self.live.proposed([order for name, order in mine.items() if setting_of(name)])
        except SettingsError as error:
            return " ".join(error.problems)

    def _take(self, orders):
        self.orders = self.orders.merge(orders)
        mine = self.orders.of(self.node)
        self.live.follow(order for name, order in mine.items() if setting_of(name))

    def _state(self, name):
        if setting_of(name):
            return value_of(self.live.settings, setting_of(name))
        order = self.orders.newest(self.node, name)
        on = order is not None and order.on
        if name == DRAIN:
            running = self.trouble.get("running", [0])
            left = running.pop(0) if len(running) > 1 else running[0]
            done = {"done": not left, "running": left, "held": 0, "scheduled": 1, "rate_limited": 0}
            return done if on else "in service"
        assert pause_of(name)
        return "paused" if on else "running"


@pytest.fixture
def site(monkeypatch, make_app):
    """``site(Worker(…), …)`` and then ``site.run("pause", "batch")``."""
    monkeypatch.setattr(ordering, "operator", lambda: "ann@ops")
    monkeypatch.setattr(ordering.time, "sleep", lambda seconds: None)

    class Site:
        def __call__(self, *workers, plain=()):
            self.workers = {worker.node: worker for worker in workers}
            self.plain = dict.fromkeys(plain, PLAIN)
            self.asked = []
            monkeypatch.setattr(ordering, "ask", self.ask)
            monkeypatch.setattr("celery_fair.cli.remote.ask", self.ask)
            self.app = make_app()
            return self

        def ask(self, app, command, *, timeout_seconds, destination=None, limit=None, arguments):
            self.asked.append((destination, limit, arguments))
            asked = destination or self.workers
            replies = {n: self.workers[n].answer(**arguments) for n in asked if n in self.workers}
            heard = {node: reply for node, reply in replies.items() if reply is not None}
            return heard if destination else {**heard, **self.plain}

        def run(self, *arguments):
            context = CLIContext(app=self.app, no_color=True, workdir=None)
            return CliRunner().invoke(fair, arguments, obj=context)

    return Site()


def test_all_workers_are_told_and_asked_again(site):
    done = site(Worker("w1@host"), Worker("web2@host")).run("pause", "batch")
    assert done.output == (
        "batch\n"
        "  w1@host    running → paused\n"
        "  web2@host  running → paused\n"
        "Lasts while a worker is left that knows it; --keep keeps it over restarts.\n"
    )
    assert done.exit_code == 0
    assert [limit for _, limit, _ in site.asked] == [None, 2, 2], "no waiting for answers known of"


def test_lines_are_filled_to_a_narrow_terminal(site, monkeypatch):
    monkeypatch.setenv("COLUMNS", "46")
    done = site(Worker("w1@host")).run("pause", "batch")
    assert done.output == (
        "batch\n"
        "  w1@host  running → paused\n"
        "Lasts while a worker is left that knows it;\n"
        "--keep keeps it over restarts.\n"
    )


def test_an_order_names_who_has_given_it(site):
    site(Worker("w1@host")).run("set", "batch_share=0.3")
    (order,) = site.workers["w1@host"].orders
    assert (order.by, order.counter, order.scope, order.value) == ("ann@ops", 1, EVERYBODY, 0.3)


def test_one_worker_can_be_named_and_the_others_remember_its_order(site):
    site(Worker("w1@host"), Worker("w2@host")).run("set", "-d", "w2@host", "batch_share=0.3")
    one, two = site.workers.values()
    assert (one.live.settings.batch_share, two.live.settings.batch_share) == (0.2, 0.3)
    assert one.orders == two.orders


def test_if_one_refuses_nothing_is_changed_anywhere(site):
    done = site(Worker("w1@host"), Worker("w2@host", most_reserve=1)).run("set", "reserve=2")
    assert done.exit_code == 1
    assert "! w2@host refuses: expected reserve to be at most 1." in done.output
    assert "! Nothing was changed, in no worker." in done.output
    assert len(site.asked) == 1


def test_one_that_is_not_meant_may_refuse(site):
    site(Worker("w1@host"), Worker("w2@host", most_reserve=1))
    assert site.run("set", "-d", "w1@host", "reserve=2").exit_code == 0


def test_who_is_overruled_meanwhile_is_told_by_whom(site):
    rival = pausing("batch", None, on=False)
    done = site(Worker("w1@host", rival=rival)).run("pause", "batch")
    assert done.exit_code == 1
    assert "! Overruled meanwhile by bob@ops: batch was ended." in done.output


def test_workers_that_know_different_orders_are_noticed(site):
    done = site(Worker("w1@host"), Worker("w2@host", rival=pausing("interactive", None, on=True)))
    done = site.run("pause", "batch")
    assert done.exit_code == 1
    assert "! Workers know different orders" in done.output


def test_one_that_falls_silent_is_named(site):
    done = site(Worker("w1@host"), Worker("w2@host", silent_from=3)).run("pause", "batch")
    assert done.exit_code == 1
    assert "! w2@host has answered, and then no more" in done.output


def test_so_is_one_that_was_named_and_does_not_answer(site):
    done = site(Worker("w1@host")).run("pause", "batch", "-d", "w1@host,w9@host")
    assert done.exit_code == 1
    assert "! w9@host doesn't answer" in done.output


def test_a_plain_worker_is_no_obstacle_and_is_named(site):
    done = site(Worker("w1@host"), plain=["old@host"]).run("pause", "batch")
    assert done.exit_code == 0
    assert "! old@host works without celery-fair, and goes on: plain Celery" in done.output


def test_unless_it_was_named(site):
    workers = site(Worker("w1@host"), plain=["old@host"])
    done = workers.run("pause", "batch", "-d", "w1@host,old@host")
    assert done.exit_code == 1
    assert site.run("pause", "batch", "-d", "w1@host").exit_code == 0


def test_one_that_was_named_alone_is_not_said_to_be_silent(site):
    done = site(Worker("w1@host"), plain=["old@host"]).run("drain", "old@host")
    assert done.exit_code == 1
    assert "doesn't answer" not in done.output
    assert "old@host: no celery-fair runs there" in done.output


def test_without_any_other_there_is_nobody_to_tell(site):
    done = site(plain=["old@host"]).run("pause", "batch")
    assert done.exit_code == 1
    assert "No worker that answered runs celery-fair" in done.output


def test_without_a_worker_it_is_said_in_one_sentence(site):
    done = site().run("set", "batch_share=0.3")
    assert done.exit_code == 69
    assert "No worker answered within 1 s" in done.output


@pytest.mark.parametrize("named", [(), ("-d", "w9@host")])
def test_what_nobody_was_told_is_not_done(site, named):
    workers = site(Worker("w1@host")) if named else site()
    said, _ = json.JSONDecoder().raw_decode(workers.run("pause", "batch", "--json", *named).output)
    assert not said["done"]
    assert said["no_answer"] == list(named[1:])


def test_one_that_only_observes_has_noted_it(site):
    done = site(Worker("w1@host", not_in_force="it only observes")).run("pause", "batch")
    assert "! w1@host has noted it, and doesn't follow: it only observes." in done.output
    assert done.exit_code == 1, "it starts batch all the same"
    resumed = site.run("resume", "batch")
    assert (resumed.exit_code, "noted" in resumed.output) == (0, False), "nothing is paused there"
    settings = site(Worker("w1@host", not_in_force="it only observes")).run("set", "reserve=1")
    assert "noted" not in settings.output, "settings count there too"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pause", "batch", "--queue", "report"], "did you mean 'reports'?"),
        (["pause", "batch", "--queue", "xyz"], "they consume celery, reports"),
        (["resume", "interactive", "--queue", "reports"], "'reports' is batch here"),
        (["pause", "bulk"], "'bulk' is not one of"),
        (["set"], "Expected NAME=VALUE, or --unset NAME"),
        (["set", "batch_share"], "expected NAME=VALUE"),
        (["set", "batch_share=0.7"], "batch_share: expected a share in (0, 0.5], got 0.7"),
        (["set", "queues={}"], "queues can't be changed in a running worker"),
        (["set", "reserve=1", "reserve=2"], "reserve was given twice"),
        (["set", "reserve=1", "--unset", "reserve"], "reserve was given twice"),
        (["set", "--unset", "batch_shar"], "did you mean 'batch_share'"),
        (["set", "-d", ",".join(f"w{n}" for n in range(101)), "reserve=1"], "name 100 at the most"),
    ],
)
def test_what_cant_be_done_is_said_before_anything_is_told(site, arguments, said):
    done = site(Worker("w1@host")).run(*arguments)
    assert done.exit_code == 2
    assert said in done.output
    assert len(site.asked) <= 1
    assert len(site.workers["w1@host"].orders) == 0


def test_unset_is_shown_as_any_change_and_says_nothing_of_how_long(site):
    site(Worker("w1@host")).run("set", "batch_share=0.3")
    done = site.run("set", "--unset", "batch_share")
    assert done.output == "batch_share\n  w1@host  0.3 → 0.2\n"


def test_to_keep_an_order_needs_a_redis_that_remembers(site):
    done = site(Worker("w1@host")).run("pause", "batch", "--keep")
    assert done.exit_code == 78
    assert "set state_url, as in 'redis://host:6379/1'" in done.output
    assert len(site.asked) == 1, "nothing was told"


def test_json_has_it_all(site):
    said = json.loads(site(Worker("w1@host"), plain=["old@host"]).run(
        "set", "batch_share=0.3", "--json").output)  # fmt: skip
    assert said["done"]
    assert said["workers"] == {"w1@host": {"batch_share": {"before": 0.2, "after": 0.3}}}
    assert said["without_celery_fair"].keys() == {"old@host"}
    assert {"refused", "not_in_force", "no_answer", "overruled", "agree", "kept"} < said.keys()


def test_a_drain_is_for_the_process_that_answers_and_can_be_waited_for(site):
    done = site(Worker("w1@host", running=[2, 2, 2, 1, 0])).run("drain", "w1@host", "--wait")
    (order,) = site.workers["w1@host"].orders
    assert (order.scope, order.value) == ("w1@host", 123.5)
    assert done.exit_code == 0
    assert done.output == (
        "work\n"
        "  w1@host  in service → draining (2 running, 1 wait for their time)\n"
        "For this process: the next of its name takes work.\n"
        "  w1@host  draining (2 running, 1 wait for their time)\n"
        "  w1@host  draining (1 running, 1 wait for their time)\n"
        "  w1@host  drained (1 wait for their time)\n"
    )


def test_a_drained_worker_that_goes_away_is_waited_for_no_longer(site):
    worker = Worker("w1@host", running=[1], silent_from=6)
    done = site(worker).run("drain", "w1@host", "--wait")
    assert done.exit_code == 1
    assert "w1@host doesn't answer any more: it has ended, or is cut off" in done.output


def test_a_drain_of_nobody_known_is_said(site):
    done = site(Worker("w1@host")).run("drain", "w11@host")
    assert done.exit_code == 69
    assert "w11@host doesn't answer; did you mean 'w1@host'?" in done.output


# fair settings


def settings_of(site, monkeypatch, plain=(), **workers):
    def ask(app, command, **_):
        assert command == "fair_settings"
        return {
            node: {"settings": values, "refused": {}, "orders": "1:a"}
            for node, values in workers.items()
        } | dict.fromkeys(plain, PLAIN)  # fmt: skip

    site()
    monkeypatch.setattr("celery_fair.cli.remote.ask", ask)
    return site


LIVE = {"value": 0.3, "source": "live", "by": "ann@ops", "at": 1.0}
FROM_APP = {"value": 5, "source": "app.conf.fair['protect_backlog']"}


def test_values_are_shown_with_their_source_and_who_has_them(site, monkeypatch):
    settings_of(
        site, monkeypatch, w1={"batch_share": LIVE, "protect_backlog": FROM_APP},
        w2={"protect_backlog": FROM_APP},
    )  # fmt: skip
    done = site.run("settings")
    assert done.exit_code == 0
    assert done.output == (
        "batch_share = 0.2 (default): this app, w2\n"
        "batch_share = 0.3 (live, by ann@ops): w1\n"
        "protect_backlog = 10 (default): this app\n"
        "protect_backlog = 5 (app.conf.fair['protect_backlog']): w1, w2\n"
    )


def test_only_what_differs_is_shown_where_that_is_asked(site, monkeypatch):
    same = {"batch_share": {"value": 0.2, "source": "CELERY_FAIR__BATCH_SHARE"}}
    settings_of(site, monkeypatch, w1=same, w2=same)
    done = site.run("settings", "--diff")
    assert (done.output, done.exit_code) == ("No setting differs.\n", 0)
    settings_of(site, monkeypatch, w1=same, w2={"batch_share": LIVE})
    assert site.run("settings", "--diff").exit_code == 1


def test_those_who_have_no_settings_or_say_none_are_named(site, monkeypatch):
    settings_of(site, monkeypatch, w1={}, plain=["old"])
    done = site.run("settings", "--diff", "-d", "w1,old,w9")
    assert done.exit_code == 1, "w9 may have anything"
    assert "! old works without celery-fair, and none of this holds there: plain" in done.output
    assert "! w9 doesn't answer." in done.output
    said = json.loads(site.run("settings", "-d", "w1,old,w9", "--json").output)
    assert (list(said["without_celery_fair"]), said["no_answer"]) == (["old"], ["w9"])


def test_nothing_is_said_to_be_the_same_where_nobody_answers(site, monkeypatch):
    done = settings_of(site, monkeypatch).run("settings", "--diff")
    assert done.exit_code == 69
    assert "differs" not in done.output
