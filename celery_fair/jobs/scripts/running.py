"""What workers ask: items for a chunk, to be counted, and what others have lost."""

from __future__ import annotations

from typing import Final

from celery_fair.jobs import keeping
from celery_fair.jobs.scripts.record import RECORD
from celery_fair.jobs.scripts.submitting import ALL
from celery_fair.state import Script

#: ARGV: the ticket, a token, the lease. Answers 'claim', the ranges, losses, the measured time of
#: an item, the plan and the items; or why there is nothing.
CLAIM: Final = Script(
    ALL
    + f"local GONE, CHARACTERS = {keeping.ITEMS_GONE!r}, {keeping.CLAIM_CHARACTERS}\n"
    + """
local ticket, token, lease = ARGV[4], ARGV[5], tonumber(ARGV[6])
local plan = call('GET', 'plan')
if not plan or not open(job) then return {'unknown'} end
may_be_full()
local held = claim_of(ticket)
if held and held.token ~= token then
  if tonumber(call('ZSCORE', 'leases', ticket)) > now then return {'surplus'} end
  take_back(ticket)
  settle_for_keepers()
  held = nil
end
-- The items go into ``items``, as many as fit; answers how many, and whether none is gone.
local items = {}
local function fetch(list)
  local indices, room = indices_of(list), CHARACTERS
  for from = 1, #indices, 100 do
    local part = {unpack(indices, from, math.min(from + 99, #indices))}
    for at, item in ipairs(call('HMGET', 'items', unpack(part))) do
      if not item then
        local kept = call('HGET', 'failures', part[at])
        if not kept then return 0, false end
        item = cjson.decode(kept)[1]
      end
      room = room - #item
      if room < 0 and #items > 0 then return #items, true end
      items[#items + 1] = item
    end
  end
  return #items, true
end
local function why_not()
  if state() == 'cancelled' or state() == 'paused' then return state() end
  if ended() then return 'ended' end
  if not call('ZSCORE', 'waiting', ticket) then return 'surplus' end
  if work() == 0 then return 'no items' end
end
if not held then
  local reason = why_not()
  call('ZREM', 'waiting', ticket)
  call('HDEL', 'waits', ticket)
  if reason then
    save(true)
    return {reason}
  end
  local losses, list = take()
  local count, whole = fetch(list)
  if not whole then
    give_back(losses, list)
    pause(GONE)
    save(true)
    return {'paused'}
  end
  local fits, rest = split(list, count)
  give_back(losses, rest)
  held = {token = token, losses = losses, reported = 0, list = fits}
  keep_claim(ticket, held)
  write('ZADD', 'leases', now + lease, ticket)
  add('running', count)
  if meta.started == '' then put('started', now) end
end
save(true)
if #items == 0 then fetch(held.list) end
return {'claim', written_as(held.list), held.losses, meta.item_seconds or '', plan, items}
"""
)

#: ARGV: the ticket, the token, the lease. Answers 1, or 0 for a claim that is lost.
RENEW: Final = Script(
    RECORD
    + """
job = ARGV[3]
local found = call('HGET', 'claims', ARGV[4])
local token = ARGV[5] .. '|'
if not found or string.sub(found, 1, #token) ~= token then return 0 end
call('ZADD', 'leases', 'XX', now + tonumber(ARGV[6]), ARGV[4])
return 1
"""
)

#: ARGV: the ticket, the token, items reported before, how many now, the seconds of one, the size of
#: the next chunk, whether it ends, the next ticket, whether it yielded, how many have failed; then
#: of each its index, class and message; then of each result its index and JSON. Answers 1 or 0
#: (counted or not), the next ticket, whether to stop, and callbacks due as names and numbers.
REPORT: Final = Script(
    ALL
    + """
local ticket, token, after, count = ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local ends, next_ticket, failures = ARGV[10] == '1', ARGV[11], tonumber(ARGV[13])
if not open(job) then return {0, '', 0} end
local answer_key = key('answer.' .. token)
local held = claim_of(ticket)
if not held or held.token ~= token or after > held.reported then
  local answer = redis.call('GET', answer_key)
  if not answer then return {0, '', 0} end
  answer = cjson.decode(answer)
  return answer[1] > now and answer[2] or {0, '', 0}
end
may_be_full()
local done, rest = split(held.list, math.max(after + count - held.reported, 0))
local indices, is_new, has_failed = indices_of(done), {}, {}
for _, index in ipairs(indices) do is_new[index] = true end
held.list = rest
held.reported = held.reported + #indices
for at = 14, 13 + 3 * failures, 3 do
  if is_new[ARGV[at]] then
    fail(ARGV[at], ARGV[at + 1], ARGV[at + 2])
    has_failed[ARGV[at]] = true
    is_new[ARGV[at]] = nil
  end
end
local succeeded, blocks = {}, {}
for _, index in ipairs(indices) do
  if not has_failed[index] then succeeded[#succeeded + 1] = index end
end
add('done', #succeeded)
if get('retried') > 0 then
  in_parts(succeeded, function(part) call('HDEL', 'failures', unpack(part)) end)
end
for at = 14 + 3 * failures, #ARGV, 2 do
  if is_new[ARGV[at]] then
    local number = math.floor(tonumber(ARGV[at]) / BLOCK)
    blocks[number] = blocks[number] or {}
    table.insert(blocks[number], ARGV[at])
    table.insert(blocks[number], ARGV[at + 1])
  end
end
for number, fields in pairs(blocks) do write('HSET', block(number), unpack(fields)) end
finished(indices)
if #indices > 0 then measure(tonumber(ARGV[8]), #indices) end
add('running', -#indices)
if meta.chunk_items == '' then put('size', math.max(tonumber(ARGV[9]), 1)) end
local calls = settle()
if #indices > 0 and #calls == 0 and state() == 'running' then calls = progress_due() end
local follows = ''
if ends then
  drop_claim(ticket)
  add('yields', tonumber(ARGV[12]))
  add('running', -count_of(held.list))
  give_back(held.losses, held.list)
  if next_ticket ~= '' then follows = grant({next_ticket})[1] or '' end
elseif #indices > 0 then
  keep_claim(ticket, held)
end
save(true)
local answer = {1, follows, state() == 'running' and 0 or 1, unpack(calls)}
if ends then redis.call('SET', answer_key, cjson.encode({now + ANSWER, answer}), 'PX', ANSWER) end
return answer
"""
)

#: ARGV: how many tickets of each job, what new ones are called, then tasks. Answers a row for each
#: job: its id, how many tickets, the tickets, and callbacks due as names and numbers.
OVERDUE: Final = Script(
    ALL
    + """
local limit, seed, minted = tonumber(ARGV[4]), ARGV[5], 0
local function wait_again()
  local again = {}
  for _, ticket in ipairs(call('ZRANGEBYSCORE', 'waiting', '-inf', now, 'LIMIT', 0, limit)) do
    if work() == 0 then
      call('ZREM', 'waiting', ticket)
      call('HDEL', 'waits', ticket)
    else
      local wait = 2 * (tonumber(call('HGET', 'waits', ticket)) or TICKET)
      write('HSET', 'waits', ticket, text(wait))
      write('ZADD', 'waiting', now + wait, ticket)
      again[#again + 1] = ticket
    end
  end
  return again
end
local function late_calls()
  local late = {}
  for _, name in ipairs({'failures', 'finish', 'progress'}) do
    local due = tonumber(meta['due.' .. name])
    if due and due <= now then
      put('due.' .. name, now + CALL)
      late[#late + 1] = name
      late[#late + 1] = meta['number.' .. name]
    end
  end
  return late
end
-- The results live as long as the job: a part of them at each look, once a day until it has ended.
local function sweep()
  if meta.results ~= '1' then return false end
  local blocks, from = math.ceil(get('submitted') / BLOCK), get('swept')
  if from >= blocks and not ended() and now - get('swept_at') > 86400000 then
    from = 0
    put('swept_at', now)
  end
  local upto = math.min(blocks, from + 500)
  for number = from, upto - 1 do call('PEXPIRE', block(number), text(life())) end
  put('swept', upto)
  return upto < blocks and ended()
end
local function is_looked_after()
  return state() == 'running' or call('ZCARD', 'leases') > 0 or meta['due.finish']
         or meta['due.failures'] or meta['due.progress']
end
local function look()
  may_be_full()
  for _, ticket in ipairs(call('ZRANGEBYSCORE', 'leases', '-inf', now, 'LIMIT', 0, limit)) do
    take_back(ticket)
  end
  settle_for_keepers()
  local again = wait_again()
  local more, mint = math.min(limit - #again, wanted()), {}
  for at = 1, more do
    mint[at] = seed .. '-' .. text(minted)
    minted = minted + 1
  end
  for _, ticket in ipairs(grant(mint)) do again[#again + 1] = ticket end
  local late = late_calls()
  local swept = sweep()
  save((#again > 0 or #late > 0) and not ended())
  if is_looked_after() or swept then redis.call('ZADD', open_set(), now + LOOK, job)
  else redis.call('ZREM', open_set(), job) end
  if #again > 0 or #late > 0 then return {job, #again, again, late} end
end
local rows = {}
for at = 6, #ARGV do
  local names = prefix .. 'jobs.open.' .. ARGV[at]
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', names, '-inf', now, 'LIMIT', 0, LOOKS)) do
    if open(id) then rows[#rows + 1] = look()
    else redis.call('ZREM', names, id) end
  end
end
return rows
"""
)
