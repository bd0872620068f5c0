"""Settings that were set live: which are in force here, and which this worker can't follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from celery_fair.errors import SettingsError
from celery_fair.settings import FairSettings
from celery_fair.steering import Order, setting_of
from celery_fair.steering.live import lived
from celery_fair.worker.steering.changes import Change

Check = Callable[[FairSettings], None]
"""Raises `SettingsError` for what doesn't fit this worker: its pool, say."""


class LiveSettings:
    """The settings that the worker was started with, and what was set since.

    Orders of one command are validated and taken together: none of them, if one can't be. What
    can't be taken leaves in force what was, and is tried again with whatever comes next: so who
    hears of all at once ends as those who heard of them one by one.
    """

    def __init__(self, base: FairSettings, check: Check) -> None:
        self.base = self.settings = base
        self._check = check
        self.orders: dict[str, Order] = {}
        """By setting: the orders that are in force."""
        self.refused: dict[str, str] = {}
        """By setting: why the newest order is not."""

    def follow(self, orders: Iterable[Order]) -> list[Change]:
        """Take these, which are the newest of each setting that anybody has set."""
        wanted = {setting_of(order.name): order for order in orders}
        news = {
            name: order
            for name, order in wanted.items()
            if name is not None and self.orders.get(name) != order
        }
        self.refused = {}
        changes: list[Change] = []
        left, tried = _by_command(news), 0
        while len(left) != tried:  # what one makes possible may be older than it
            tried = len(left)
            left = [command for command in left if not self._take(command, changes)]
        return changes

    def _take(self, news: Mapping[str, Order], changes: list[Change]) -> bool:
        """Take a command, and add what has changed by it; whether that could be done."""
        orders = {**self.orders, **news}
        try:
            settings = self._resolve(orders)
        except SettingsError as error:
            self.refused.update(dict.fromkeys(news, " ".join(error.problems)))
            return False
        before, self.settings, self.orders = self.settings, settings, orders
        self.refused = {name: why for name, why in self.refused.items() if name not in news}
        changes += [
            Change(name, value_of(before, name), value_of(settings, name), order.by, order.at)
            for name, order in news.items()
            if value_of(before, name) != value_of(settings, name)
        ]
        return True

    def proposed(self, orders: Iterable[Order]) -> FairSettings:
        """What would be in force with these; raises `SettingsError`, and changes nothing."""
        news = {setting_of(order.name): order for order in orders}
        return self._resolve({
            **self.orders, **{name: order for name, order in news.items() if name is not None}
        })  # fmt: skip

    def _resolve(self, orders: Mapping[str, Order]) -> FairSettings:
        values = {name: order.value for name, order in orders.items() if order.on}
        settings = lived(self.base, values)
        self._check(settings)
        return settings


def _by_command(orders: Mapping[str, Order]) -> list[dict[str, Order]]:
    """Orders in the order in which they were given; those of one command have one counter."""
    commands: dict[tuple[int, str, str], dict[str, Order]] = {}
    for name, order in orders.items():
        commands.setdefault((order.counter, order.by, order.scope), {})[name] = order
    return [commands[key] for key in sorted(commands)]


def value_of(settings: FairSettings, name: str) -> Any:
    """The value of a setting, as JSON."""
    return settings.model_dump(mode="json", include={name}).get(name)
