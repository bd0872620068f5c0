"""A stream in the state's Redis: all workers add batches, and the oldest go beyond a limit."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

from celery_fair.record.folder import LONGEST_BATCH
from celery_fair.state import Call, Script, State, text_of

STREAM: Final = "_celery_fair.record"
SIZE: Final = "_celery_fair.record.size"
KEYS: Final = (STREAM, SIZE)
KEPT_SECONDS: Final = 2 * 86_400
"""How long the stream stays when nobody adds to it any more."""
AT_ONCE: Final = 20
"""Entries of one reading."""
FIRST: Final = "0-0"

_ADD: Final = Script("""
local over = tonumber(ARGV[3])
redis.call('XADD', KEYS[1], '*', 'd', ARGV[2])
local size = redis.call('INCRBY', KEYS[2], #ARGV[2])
for _ = 1, 100 do
  if size <= over then break end
  local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
  if not oldest then
    redis.call('SET', KEYS[2], 0)
    break
  end
  redis.call('XDEL', KEYS[1], oldest[1])
  size = redis.call('DECRBY', KEYS[2], #oldest[2][2])
end
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('EXPIRE', KEYS[2], ARGV[4])
return size
""")
_READ: Final = Script("""
local found = redis.call('XREAD', 'COUNT', ARGV[3], 'STREAMS', KEYS[1], ARGV[2])
if not found then return {} end
local entries = {}
for _, entry in ipairs(found[1][2]) do
  entries[#entries + 1] = {entry[1], entry[2][2]}
end
return entries
""")
_LAST: Final = Script("""
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
return last and last[1] or '0-0'
""")


class Stream:
    """Adds what one worker has recorded; raises `StateAway`."""

    def __init__(self, state: Callable[[], State], limit_bytes: int) -> None:
        self._state = state
        self._limit = limit_bytes

    def write(self, batch: bytes) -> None:
        packed = base64.b64encode(zlib.compress(batch, 6)).decode()
        self._state().call(Call(_ADD, KEYS, [packed, self._limit, KEPT_SECONDS]), insist=True)


class Entry(NamedTuple):
    """A batch, and where to read on behind it."""

    place: str
    batch: bytes


def last_place(state: State) -> str:
    """Where the stream ends now."""
    return text_of(state.call(Call(_LAST, KEYS[:1], []), insist=True))


def read_on(state: State, place: str) -> list[Entry]:
    """The next entries behind a place; what is none is read as empty."""
    found = state.call(Call(_READ, KEYS[:1], [place, AT_ONCE]), insist=True)
    return [Entry(text_of(one), _unpacked(packed)) for one, packed in found]


def _unpacked(packed: str | bytes) -> bytes:
    try:
        unpacker = zlib.decompressobj()
        return unpacker.decompress(base64.b64decode(packed), LONGEST_BATCH)
    except (ValueError, zlib.error):
        return b""
