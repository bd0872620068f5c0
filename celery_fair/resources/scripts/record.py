"""What every script on resources begins with: its clocks, its keys, and what is kept of each."""

from __future__ import annotations

from typing import Final

from celery_fair.policy import aimd
from celery_fair.resources import memory_store, shared, walk
from celery_fair.resources.store import LEASE_SECONDS, RENEW_SECONDS

KEPT_SECONDS: Final = 2 * 86_400.0
"""All keys expire after so long without a look."""


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


_CONSTANTS: Final = {
    "LEASE": _ms(LEASE_SECONDS),
    "RENEW": RENEW_SECONDS,
    "STARTING": _ms(memory_store.STARTING_SECONDS),
    "STEP": _ms(memory_store.STEP_SECONDS),
    "BUDGET_STEP": _ms(memory_store.BUDGET_STEP_SECONDS),
    "SILENT": _ms(memory_store.SILENT_SECONDS),
    "OFFER": _ms(memory_store.OFFER_SECONDS),
    "KEPT": _ms(KEPT_SECONDS),
    "FIRST_MEAN": shared.FIRST_MEAN_SECONDS,
    "MEAN_WEIGHT": shared.MEAN_WEIGHT,
    "FORGET": shared.FORGET_SECONDS,
    "OVERDUE": memory_store.MOST_OVERDUE,
    "MOST_SILENT": memory_store.MOST_SILENT,
    "PATIENT": walk.PATIENT_SECONDS,
    "GRANTED": walk.MOST_GRANTED,
    "ASIDE": walk.MOST_SET_ASIDE,
    "OWED": shared.OWED_SECONDS,
    "DEBT": shared.DEBT_SECONDS,
    "DECREASE": aimd.DECREASE,
    "INCREASE": aimd.INCREASE_PER_SECOND,
    "LEAST": aimd.LEAST,
    "ONE_BURST": aimd.ONE_BURST_SECONDS,
    "SHUT": aimd.SHUT_SECONDS,
    "LONGEST_DEFAULT": aimd.LONGEST_DEFAULT_SECONDS,
    "LONGEST": aimd.LONGEST_SECONDS,
    "CALM": aimd.CALM_SECONDS,
    "NEVER": aimd.NEVER,
}

#: As locals of one table: Lua has room for sixty names that a function takes from outside.
CONSTANTS: Final = (
    "local C = {" + ", ".join(f"{name} = {value!r}" for name, value in _CONSTANTS.items()) + "}\n"
)

#: ARGV is the app's prefix, the clock to go by ('' for Redis's own), the rules as JSON, how far the
#: caller has seen the store come, as ``epoch/step``, then a script's own. ``come`` tells that.
RECORD: Final = (
    CONSTANTS
    + """
local prefix, rules = ARGV[1] .. '_celery_fair.resources', cjson.decode(ARGV[3])
local LEASES, UNTIL, WAITING = prefix .. '.leases', prefix .. '.until', prefix .. '.waiting'
local LINES, WORKERS, SEEN = prefix .. '.lines', prefix .. '.workers', prefix .. '.seen'
local call, floor, ceil = redis.call, math.floor, math.ceil
local min, max = math.min, math.max
local FIELDS = {'at', 'spent', 'interactive', 'batch', 'i_waiting', 'b_waiting', 'requests',
                'tokens', 'o_places', 'o_requests', 'o_tokens', 'mean', 'rate', 'pace_at',
                'cut_at', 'shut_until', 'strikes'}
local META = {'at', 'spent', 'seen', 'run', 'starting', 'numbers', 'held', 'wanted',
              'epoch', 'step'}
local meta, shared, at, spent = {}, {}, 0, 0
local function text(number) return string.format('%.17g', number) end
local function line_key(line) return prefix .. '.line.' .. line end
local function wake_key(worker) return prefix .. '.wake.' .. worker end
local function kind_of(line) return string.match(line, '^(%a+)') end
local function names_of(line)
  local names = {}
  for name in string.gmatch(string.match(line, '^%a+:(.*)$'), '[^,]+') do
    names[#names + 1] = name
  end
  return names
end

-- Which server answers, and since when: what a restart or a failover has lost is noticed by it.
-- Who may not ask that goes by the steps alone, and leaves it as those have it who may.
local function run_id()
  local info = redis.pcall('INFO', 'server')
  local _, last = string.find(type(info) == 'string' and info or '', 'run_id:', 1, true)
  return last and string.sub(info, last + 1, last + 40) or ''
end
local function forget_all()
  for _, line in ipairs(call('SMEMBERS', LINES)) do call('DEL', line_key(line)) end
  call('DEL', prefix, LEASES, UNTIL, WAITING, LINES, WORKERS, SEEN)
end
local function open()
  local now = tonumber(ARGV[2])
  if not now then
    local time = call('TIME')
    now = tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000)
  end
  local found = call('HMGET', prefix, unpack(META))
  for place, field in ipairs(META) do meta[field] = tonumber(found[place]) or 0 end
  call('HDEL', prefix, '')  -- a full Redis allows this, and then all that follows
  local run, held = run_id(), call('HLEN', LEASES)
  local fresh = not found[1] or held ~= meta.held or held ~= call('ZCARD', UNTIL)
                or call('HLEN', WAITING) ~= meta.wanted
  if fresh then forget_all() end
  local passed = found[3] and max(now - meta.seen, 0) or 0
  at = meta.at + min(passed, C.STEP)
  spent = meta.spent + min(passed, C.BUDGET_STEP)
  if fresh then meta.epoch, meta.step = now, 0 end
  local epoch, step = string.match(ARGV[4], '^(%d+)/(%d+)$')
  local seen = tonumber(epoch) == meta.epoch and tonumber(step) or 0
  local last = not fresh and found[4] or ''
  if run == '' or last == '' then run = run .. last; last = run end
  if fresh or last ~= run or meta.step < seen then
    meta.starting = at + C.STARTING
    meta.step = max(meta.step, seen)
  end
  meta.at, meta.spent, meta.seen, meta.run, meta.step = at, spent, now, run, meta.step + 1
end
local function come() return string.format('%.0f/%.0f', meta.epoch, meta.step) end
local function save()
  meta.held, meta.wanted = call('HLEN', LEASES), call('HLEN', WAITING)
  local values = {}
  for _, field in ipairs(META) do
    values[#values + 1] = field
    values[#values + 1] = field == 'run' and meta.run or text(meta[field])
  end
  for name, one in pairs(shared) do
    local packed = {}
    for place, field in ipairs(FIELDS) do packed[place] = text(one[field]) end
    values[#values + 1] = 'r.' .. name
    values[#values + 1] = table.concat(packed, ' ')
  end
  call('HSET', prefix, unpack(values))
  for _, key in ipairs({prefix, LEASES, UNTIL, WAITING, LINES, WORKERS, SEEN}) do
    call('PEXPIRE', key, C.KEPT)
  end
end
"""
)
