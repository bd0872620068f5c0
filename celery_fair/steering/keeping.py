"""Orders that outlive every worker: a hash in the app's state Redis, and the calls for it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from typing import Any, Final

from celery_fair.state import Call, Script
from celery_fair.steering.orders import Malformed, Order, Orders

KEY: Final = "_celery_fair.orders"

# ARGV: the app's prefix, how many orders, then of each its field, counter, id and JSON; then of
# each to be dropped its field and its counter. It never replaces a newer order by an older one.
_MERGE: Final = Script("""
local at = 3
local function stored(field)
  local found = redis.call('HGET', KEYS[1], field)
  if not found then return nil end
  local order = cjson.decode(found)
  return order[5], order[6]
end
for _ = 1, tonumber(ARGV[2]) do
  local counter, id = stored(ARGV[at])
  local new = tonumber(ARGV[at + 1])
  if not counter or new > counter or (new == counter and ARGV[at + 2] > id) then
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 3])
  end
  at = at + 4
end
while ARGV[at] do
  local counter = stored(ARGV[at])
  if counter and counter <= tonumber(ARGV[at + 1]) then redis.call('HDEL', KEYS[1], ARGV[at]) end
  at = at + 2
end
return redis.call('HVALS', KEYS[1])
""")


def merge_call(orders: Iterable[Order] = (), dropped: Iterable[Order] = ()) -> Call:
    """Keep these orders, drop those, and answer all that are kept; with neither it only reads."""
    orders = list(orders)
    args: list[str | int] = [len(orders)]
    for order in orders:
        args += [_field(order), order.counter, order.id, json.dumps(order.as_list())]
    for order in dropped:
        args += [_field(order), order.counter]
    return Call(_MERGE, [KEY], args)


def kept_orders(answer: Any) -> list[Order]:
    """The orders in an answer; what can't be read is left out: a newer version may have kept it."""
    found = []
    for text in answer or ():
        with contextlib.suppress(Malformed, ValueError):
            found.append(Order.of(json.loads(text)))
    return found


def overruled(kept: Iterable[Order]) -> list[Order]:
    """Those that newer ones for all have ended, and nobody has removed yet."""
    kept = list(kept)
    left = {order.key for order in Orders(kept)}
    return [order for order in kept if order.key not in left]


def _field(order: Order) -> str:
    return f"{order.scope}|{order.name}"
