"""The life of a request, as Lua that Redis runs in one step each.

Two keys a request. ``request.<digest>`` holds the id of the task that answers it. ``copies.<id>``
is a hash that decides which copy of that task's message may run, and says how far it has come:

- ``state``: ``waiting``, ``running``, ``retrying``, ``done`` or ``over`` (ended in any other way);
- ``copy``, ``attempt``: which message has it, and Celery's count of retries in that message;
- ``until``: the end of its lease; a worker that lives renews it;
- ``twins``, ``twin_at``: how many more copies were sent, and when the last was;
- ``alone``: there is never a second copy, since its message may expire;
- ``at``: when it was first published; ``request``: its digest, and not the whole key: Redis keeps a
  hash in a third of the room while no value is longer than 64 bytes; ``keep``: how long it answers.

Times are milliseconds: of Redis's own clock, but for ``at``, which is its publisher's, in seconds.
As long as a second copy may be on its way, ``copies.<id>`` stays for `WAIT_SECONDS`, ended or not:
else a copy from deep in a backlog would find nothing, and run again. All keys expire.
"""

from __future__ import annotations

from typing import Final

from celery_fair.state import Call, Script

WAIT_SECONDS: Final = 86_400.0
"""How long a request is known that waits, or runs, and of which nobody hears."""

LEASE_SECONDS: Final = 30.0
"""After so long without a word from its worker, a running task may be run by another copy."""

TWIN_SECONDS: Final = 1.0
"""At most one copy of a waiting task is sent within this time."""

DONE: Final = "done"
OVER: Final = "over"
WAITING: Final = "waiting"
RETRYING: Final = "retrying"

_NOW = """
local prefix = ARGV[1]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local function text(number) return string.format('%.0f', number) end
"""

_STAY = """
local function key_of(digest) return digest and ARGV[1] .. '_celery_fair.request.' .. digest end
local function stay(copies, request, wait)
  redis.call('PEXPIRE', copies, wait)
  if request and redis.call('GET', request) == id then redis.call('PEXPIRE', request, wait) end
end
"""

CLAIM: Final = Script(
    _NOW
    + """
local mine, wait, keep, alone, at = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local id = redis.call('GET', KEYS[1])
if id and id ~= mine then
  local copies = prefix .. '_celery_fair.copies.' .. id
  local found = redis.call('HMGET', copies, 'state', 'until', 'alone', 'twin_at', 'at')
  local state, single = found[1], found[3] == '1'
  if state == 'running' and tonumber(found[2]) <= now then
    if single then state = 'over' else state = 'waiting' end
  end
  if state == 'waiting' and not single and now - tonumber(found[4]) >= tonumber(ARGV[7]) then
    redis.call('HSET', copies, 'twin_at', text(now))
    redis.call('HINCRBY', copies, 'twins', 1)
    redis.call('PEXPIRE', copies, wait)
    redis.call('PEXPIRE', KEYS[1], wait)
    return {id, 'twin', found[5]}
  end
  if state and state ~= 'over' then return {id, state, found[5]} end
end
redis.call('SET', KEYS[1], mine, 'PX', wait)
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[2], 'state', 'waiting', 'until', '0', 'alone', alone, 'at', at,
           'twins', '0', 'twin_at', text(now), 'request', ARGV[8], 'keep', keep)
redis.call('PEXPIRE', KEYS[2], wait)
return {mine, 'first', at}
"""
)

RELEASE: Final = Script(
    """
local found = redis.call('HMGET', KEYS[2], 'state', 'twins')
if found[1] ~= 'waiting' or found[2] ~= '0' then return 0 end
redis.call('DEL', KEYS[2])
if redis.call('GET', KEYS[1]) == ARGV[2] then redis.call('DEL', KEYS[1]) end
return 1
"""
)

#: Whether a copy may run: its own redelivery may, and so may the retry of its attempt.
START: Final = Script(
    _NOW
    + "local id = ARGV[2]\n"
    + _STAY
    + """
local copy, attempt = ARGV[3], tonumber(ARGV[4])
local found = redis.call('HMGET', KEYS[1], 'state', 'copy', 'attempt', 'until', 'request')
local state, same, before = found[1], found[2] == copy, tonumber(found[3] or '0')
if not state then return 1 end
if state == 'done' then return 0 end
if state == 'over' and not same then return 0 end
if state == 'retrying' and not (same and attempt > before) then return 0 end
if state == 'running' then
  if same and attempt < before then return 0 end
  if not same and tonumber(found[4]) > now then return 0 end
end
redis.call('HSET', KEYS[1], 'state', 'running', 'copy', copy, 'attempt', text(attempt),
           'until', text(now + tonumber(ARGV[5])))
stay(KEYS[1], key_of(found[5]), ARGV[6])
return 1
"""
)

#: The worker lives. It may have begun while Redis was away: then the task is still ``waiting``.
RENEW: Final = Script(
    _NOW
    + "local id = ARGV[2]\n"
    + _STAY
    + """
local found = redis.call('HMGET', KEYS[1], 'state', 'copy', 'attempt', 'request')
local mine = found[1] == 'running' and found[2] == ARGV[3] and found[3] == ARGV[4]
if not mine and found[1] ~= 'waiting' then return 0 end
redis.call('HSET', KEYS[1], 'state', 'running', 'copy', ARGV[3], 'attempt', ARGV[4],
           'until', text(now + tonumber(ARGV[5])))
stay(KEYS[1], key_of(found[4]), ARGV[6])
return 1
"""
)

#: An attempt has ended: ``done``, ``over``, ``retrying``, or ``waiting`` for its redelivery. It may
#: never have started here: Celery discards a revoked retry as it comes, perhaps before the end of
#: the attempt before is told, and one that comes while Redis is away runs unasked.
END: Final = Script(
    "local id = ARGV[2]\n"
    + _STAY
    + """
local found = redis.call('HMGET', KEYS[1], 'state', 'copy', 'attempt', 'twins', 'request', 'keep')
local state, same = found[1], found[2] == ARGV[3]
local mine = state == 'running' and same and found[3] == ARGV[4]
local later = (state == 'running' or state == 'retrying') and same
              and tonumber(ARGV[4]) > tonumber(found[3])
if not mine and not later and state ~= 'waiting' then return 0 end
local copies, request, wait, ending = KEYS[1], key_of(found[5]), ARGV[6], ARGV[5]
local answers = request and redis.call('GET', request) == id
redis.call('HSET', copies, 'state', ending, 'copy', ARGV[3], 'attempt', ARGV[4])
if ending == 'retrying' or ending == 'waiting' then
  stay(copies, request, wait)
  return 1
end
if ending == 'done' then
  if answers then redis.call('PEXPIRE', request, found[6]) end
  if found[4] == '0' then wait = found[6] end
  redis.call('PEXPIRE', copies, wait)
  return 1
end
if answers then redis.call('DEL', request) end
if found[4] == '0' then redis.call('DEL', copies) else redis.call('PEXPIRE', copies, wait) end
return 1
"""
)


def claim(
    digest: str, id: str, *, keep_seconds: float, wait_seconds: float, alone: bool, at: float
) -> Call:
    """Ask who answers a request; gives that id, a word, and when it was first published.

    The word is ``first`` for a request that nobody has sent before, and ``twin`` where the one that
    waits should be sent once more; else it is the state of the one there is.
    """
    return Call(
        CLAIM,
        _keys(digest, id),
        (
            id,
            _ms(wait_seconds),
            _ms(keep_seconds),
            int(alone),
            repr(at),
            _ms(TWIN_SECONDS),
            digest,
        ),
    )


def release(digest: str, id: str) -> Call:
    """Forget a claim whose message could not be sent."""
    return Call(RELEASE, _keys(digest, id), (id,))


def start(id: str, copy: str, attempt: int) -> Call:
    """Ask whether a copy may run: 1 or 0."""
    return Call(
        START,
        [_copies(id)],
        (id, copy, attempt, _ms(LEASE_SECONDS), _ms(WAIT_SECONDS)),
    )


def renew(id: str, copy: str, attempt: int) -> Call:
    """Say that a task still runs."""
    return Call(
        RENEW,
        [_copies(id)],
        (id, copy, attempt, _ms(LEASE_SECONDS), _ms(WAIT_SECONDS)),
    )


def end(id: str, copy: str, attempt: int, ending: str) -> Call:
    """Say how an attempt has ended."""
    return Call(END, [_copies(id)], (id, copy, attempt, ending, _ms(WAIT_SECONDS)))


def _keys(digest: str, id: str) -> list[str]:
    return [f"_celery_fair.request.{digest}", _copies(id)]


def _copies(id: str) -> str:
    return f"_celery_fair.copies.{id}"


def _ms(seconds: float) -> int:
    return max(int(seconds * 1000), 1)
