"""Items that are done or failed, and what follows: an end, a pause, callbacks, other tickets."""

from __future__ import annotations

from typing import Final

from celery_fair.jobs import keeping
from celery_fair.policy.job_failures import SAMPLE_ITEMS

COUNTING: Final = (
    f"local TOO_MANY, FULL = {keeping.TOO_MANY!r}, {keeping.FULL!r}\n"
    f"local LOST_MESSAGE = {keeping.WORKER_LOST_MESSAGE!r}\n"
    f"local SAMPLE = {SAMPLE_ITEMS}\n"
    """
local function fail(index, name, message)
  local before, item, times = call('HGET', 'failures', index), nil, 1
  if before then
    before = cjson.decode(before)
    item, times = before[1], before[4] + 1
  else
    item = call('HGET', 'items', index)
  end
  write('HSET', 'failures', index, cjson.encode({item, name, message, times, now}))
  write('ZADD', 'failed', index, index)
  add('failed', 1)
  add('failed_since', 1)
end
-- ``indices`` are all that are finished now, the failed ones among them.
local function finished(indices)
  if #indices == 0 then return end
  in_parts(indices, function(part) call('HDEL', 'items', unpack(part)) end)
  add('finished_since', #indices)
  put('last', now)
  if meta.first == '' then put('first', now) end
end
local function measure(seconds, count)
  local bucket = math.floor(now / BUCKET)
  local field = 'bucket' .. bucket % BUCKETS
  local number, before = string.match(meta[field] or '', '^(%d+):(%d+)$')
  if tonumber(number) ~= bucket then before = 0 end
  put(field, text(bucket) .. ':' .. text(before + count))
  local known = tonumber(meta.item_seconds)
  if known and seconds < known then seconds = (known + seconds) / 2 end
  put('item_seconds', string.format('%.17g', seconds))
end
local function calls_for(name)
  if not string.find(meta.calls, ',' .. name .. ',', 1, true) then return {} end
  add('number.' .. name, 1)
  put('due.' .. name, now + CALL)
  look_soon()
  return {name, meta['number.' .. name]}
end
local function stop_waiting() redis.call('UNLINK', key('waiting'), key('waits')) end
local function pause(reason)
  put('state', 'paused')
  put('reason', reason)
  stop_waiting()
end
local function why_pause()
  local bears, failed, of = tonumber(meta.max_failures), get('failed_since'), get('finished_since')
  if bears then
    local most = bears
    if bears > 0 and bears < 1 then
      local total = meta.closed == '1' and get('submitted') or tonumber(meta.total)
      most = bears * math.max(of, total and math.min(total, SAMPLE) or SAMPLE)
    end
    if failed > most then return string.format(TOO_MANY, failed, of) end
  end
  if get('failed') >= get('room') then return string.format(FULL, get('failed')) end
end
local function settle()
  if ended() then return {} end
  if meta.closed == '1' and get('done') + get('failed') == get('submitted') then
    put('state', get('failed') > 0 and 'finished with failures' or 'finished')
    put('reason', '')
    put('swept', 0)
    stop_waiting()
    no_items()
    return calls_for('finish')
  end
  local reason = state() == 'running' and why_pause()
  if not reason then return {} end
  pause(reason)
  return calls_for('failures')
end
-- Where the answer has no room for callbacks: the keepers publish them at their next look.
local function settle_for_keepers()
  local calls = settle()
  for at = 1, #calls, 2 do put('due.' .. calls[at], now) end
end
local function progress_due()
  if now - get('progress_called') < get('progress_every') then return {} end
  put('progress_called', now)
  return calls_for('progress')
end
local function begin_anew()
  put('failed_since', 0)
  put('finished_since', 0)
  put('room', get('failed') + KEPT_FAILURES)
  put('started', '')
  put('last', now)
  for at = 0, BUCKETS - 1 do put('bucket' .. at, '') end
  look_soon()
end

local function work()
  local retried = get('retried') > 0 and call('ZCARD', 'retry') or 0
  return get('submitted') - get('next') + get('given_back') + retried
end
local function wanted()
  if state() ~= 'running' then return 0 end
  local there = call('ZCARD', 'waiting')
  local room = get('backlog') - there - call('ZCARD', 'leases')
  return math.max(math.min(room, math.ceil(work() / get('size')) - there), 0)
end
local function grant(tickets)
  local granted, room = {}, wanted()
  for _, ticket in ipairs(tickets) do
    if call('ZSCORE', 'waiting', ticket) then
      granted[#granted + 1] = ticket
    elseif room > 0 and not call('ZSCORE', 'leases', ticket) then
      write('ZADD', 'waiting', now + TICKET, ticket)
      granted[#granted + 1] = ticket
      room = room - 1
    end
  end
  return granted
end
local function claim_of(ticket)
  local found = call('HGET', 'claims', ticket)
  if not found then return nil end
  local token, losses, reported, ranges = string.match(found, '^(.-)|(%d+)|(%d+)|(.*)$')
  return {token = token, losses = tonumber(losses), reported = tonumber(reported),
          list = parse(ranges)}
end
local function keep_claim(ticket, held)
  write('HSET', 'claims', ticket, held.token .. '|' .. text(held.losses) .. '|'
        .. text(held.reported) .. '|' .. written_as(held.list))
end
local function drop_claim(ticket)
  call('HDEL', 'claims', ticket)
  call('ZREM', 'leases', ticket)
end
-- A worker is lost: its items come back in halves; one that was alone fails at its last time.
local function take_back(ticket)
  local held = claim_of(ticket)
  local losses, count = held.losses + 1, count_of(held.list)
  drop_claim(ticket)
  add('running', -count)
  add('lost', 1)
  if state() == 'running' then
    write('ZADD', 'waiting', now, ticket)
    write('HSET', 'waits', ticket, TICKET / 2)
  end
  if count == 1 and losses >= LOSSES and not ended() then
    local index = text(held.list[1][1])
    fail(index, LOST, LOST_MESSAGE)
    finished({index})
    return
  end
  local head, tail = split(held.list, math.ceil(count / 2))
  give_back(losses, head)
  give_back(losses, tail)
end
"""
)
