"""Resources in Redis, as Lua that runs in one step each; `MemoryStore` is the model.

Keys, all beginning with the app's prefix and ``_celery_fair.resources``:

- that itself: a hash of the two clocks (``at``, ``spent``, in ms, and ``seen``, Redis's own time at
  the last look), of the server that answered (``run``), of until when nothing is granted
  (``starting``), and of each resource (``r.<name>``): its numbers in one line;
- ``leases``: a hash of what runs, each ``since tokens line worker``, and ``until``, a sorted set of
  the same by when they end;
- ``waiting``: a hash of those in line, each ``number tokens line since worker``; ``line.<line>``: a
  sorted set of those who want the same, by number; ``lines``: the set of their names, as in
  ``batch:gpu,openai``;
- ``workers``: a hash of what each wants, as JSON, and ``seen``, a sorted set of them by when they
  were heard of; ``wake.<worker>``: a list with one element once it may come.

If something of it is gone, all is begun anew, as after a restart of Redis: see `open` in `record`.
"""

from __future__ import annotations

from typing import Final

from celery_fair.resources.scripts.record import RECORD
from celery_fair.resources.scripts.sharing import SHARING
from celery_fair.resources.scripts.turning import TURN as TURN
from celery_fair.state import Script

#: Its own: the worker.
LEAVE: Final = Script(
    RECORD
    + SHARING
    + """
open()
leave(ARGV[5])
call('DEL', wake_key(ARGV[5]))
save()
return {come()}
"""
)

#: Its own: the resource, requests, tokens.
CHARGE: Final = Script(
    RECORD
    + SHARING
    + """
open()
end_overdue()
local one = get(ARGV[5])
for place, budget in ipairs(BUDGETS) do
  if one.rule[budget.rate] then put(one, budget, -tonumber(ARGV[5 + place])) end
end
save()
return {come()}
"""
)

#: Its own: the resource, and for how long it has said to stay away, or ''.
SLOW_DOWN: Final = Script(
    RECORD
    + SHARING
    + """
open()
end_overdue()
refuse(get(ARGV[5]), tonumber(ARGV[6]))
save()
return {come()}
"""
)

#: Its own: how many at the most, of those whose lease ends first.
HOLDERS: Final = Script(
    RECORD
    + SHARING
    + """
only_look({})
local rows = {}
for _, lease in ipairs(call('ZRANGE', UNTIL, 0, tonumber(ARGV[5]) - 1)) do
  rows[#rows + 1] = {lease, call('HGET', LEASES, lease)}
end
return {come(), text(at), rows}
"""
)

#: Its own: names of resources.
VIEWS: Final = Script(
    RECORD
    + SHARING
    + """
local names, rows = {unpack(ARGV, 5)}, {}
only_look(names)
for _, name in ipairs(names) do
  local one = get(name)
  rows[#rows + 1] = {one.interactive, one.batch, one.i_waiting, one.b_waiting, text(one.requests),
                     text(one.tokens), text(one.rate), text(max(one.shut_until - one.spent, 0))}
end
return {come(), rows}
"""
)
