"""What every script on a job begins with: its clock, its keys, and its record, read and written."""

from __future__ import annotations

from typing import Final

from celery_fair.jobs import keeping
from celery_fair.policy.job_pace import BUCKET_SECONDS, BUCKETS

RESULTS_IN_BLOCK: Final = 100
"""Redis keeps a hash of so few short values in a third of the room."""

_CONSTANTS: Final = {
    "OPEN": int(keeping.OPEN_SECONDS * 1000),
    "TICKET": int(keeping.TICKET_SECONDS * 1000),
    "CALL": int(keeping.CALL_SECONDS * 1000),
    "LOOK": int(keeping.LOOK_SECONDS * 1000),
    "LOOKS": keeping.LOOKS,
    "ANSWER": int(keeping.ANSWER_SECONDS * 1000),
    "KEPT_FAILURES": keeping.KEPT_FAILURES,
    "LOSSES": keeping.LOSSES,
    "BUCKET": int(BUCKET_SECONDS * 1000),
    "BUCKETS": BUCKETS,
    "BLOCK": RESULTS_IN_BLOCK,
}


def constants(values: dict[str, int]) -> str:
    """The values as locals of Lua."""
    return "".join(f"local {name} = {value!r}\n" for name, value in values.items())


#: ARGV is the app's prefix, the clock to go by ('' for Redis's own), the job, then a script's own.
#: ``open(id)`` reads a job's record into ``get``; ``put`` changes it, ``write`` its other keys, and
#: ``save`` keeps both, with their time to live.
RECORD: Final = (
    constants(_CONSTANTS)
    + """
local prefix, job = ARGV[1] .. '_celery_fair.', ARGV[3]
local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local PARTS = {'meta', 'plan', 'items', 'back', 'failures', 'failed', 'retry', 'waiting', 'waits',
               'leases', 'claims'}
local meta, changed, written
local function text(number) return string.format('%.0f', number) end
local function key(part) return prefix .. 'job.' .. part .. '.' .. job end
local function block(number) return 'results.' .. text(number) end
local function call(command, part, ...) return redis.call(command, key(part), ...) end
local function write(command, part, ...)
  written[part] = true
  return redis.call(command, key(part), ...)
end
local function open(id)
  job, meta, changed, written = id, {}, {}, {}
  local found = call('HGETALL', 'meta')
  for at = 1, #found, 2 do meta[found[at]] = found[at + 1] end
  return #found > 0
end
local function get(field) return tonumber(meta[field]) or 0 end
local function put(field, value)
  if type(value) == 'number' then value = text(value) end
  meta[field] = value
  changed[field] = true
end
local function add(field, more) if more ~= 0 then put(field, get(field) + more) end end
local function state() return meta.state end
local function ended() return state() ~= 'running' and state() ~= 'paused' end
local function life() return get('keep') + (ended() and 0 or OPEN) end
-- A full Redis refuses the first write of a script that may take memory, and none after this one.
local function may_be_full() call('HDEL', 'meta', '') end
local function save(touch)
  local stale = now - get('touched') >= 3600000 or changed.state
  if touch and stale then put('touched', now) end
  local fields = {}
  for field in pairs(changed) do
    fields[#fields + 1] = field
    fields[#fields + 1] = meta[field]
  end
  if #fields > 0 then call('HSET', 'meta', unpack(fields)) end
  if not touch then return end
  local left = text(life())
  if stale then
    for _, part in ipairs(PARTS) do call('PEXPIRE', part, left) end
  end
  written.meta = true
  for part in pairs(written) do call('PEXPIRE', part, left) end
end
local function open_set() return prefix .. 'jobs.open.' .. meta.task end
-- Not before those that are late: whoever has much news would keep the keepers from the others.
local function look_soon()
  local at = redis.call('ZSCORE', open_set(), job)
  if not at or tonumber(at) > now then redis.call('ZADD', open_set(), now, job) end
end
"""
)
