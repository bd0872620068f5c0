"""Which items a chunk takes, as ranges of indices, and what is given back."""

from __future__ import annotations

from typing import Final

from celery_fair.jobs import keeping

#: Ranges are ``{{first, last}, …}`` in Lua, and ``first-last,first-last`` where they are kept.
PIECES: Final = (
    f"local LOST = {keeping.WORKER_LOST!r}\n"
    """
local function parse(ranges)
  local list = {}
  for first, last in string.gmatch(ranges, '(%d+)-(%d+)') do
    list[#list + 1] = {tonumber(first), tonumber(last)}
  end
  return list
end
local function written_as(list)
  local parts = {}
  for at, range in ipairs(list) do parts[at] = text(range[1]) .. '-' .. text(range[2]) end
  return table.concat(parts, ',')
end
local function count_of(list)
  local count = 0
  for _, range in ipairs(list) do count = count + range[2] - range[1] + 1 end
  return count
end
local function add_range(list, first, last)
  local before = list[#list]
  if before and before[2] + 1 == first then before[2] = last
  elseif first <= last then list[#list + 1] = {first, last} end
end
local function split(list, count)
  local head, tail = {}, {}
  for _, range in ipairs(list) do
    local first, last = range[1], range[2]
    local upto = math.min(last, first + count - 1)
    if upto >= first then head[#head + 1] = {first, upto} end
    if upto < last then tail[#tail + 1] = {math.max(upto + 1, first), last} end
    count = count - math.max(upto - first + 1, 0)
  end
  return head, tail
end
local function indices_of(list)
  local indices = {}
  for _, range in ipairs(list) do
    for index = range[1], range[2] do indices[#indices + 1] = text(index) end
  end
  return indices
end
-- Lua's stack takes a few thousand arguments, and no more.
local function in_parts(values, run)
  for at = 1, #values, 1000 do run({unpack(values, at, math.min(at + 999, #values))}) end
end
local function no_items() call('UNLINK', 'items') end
local function give_back(losses, list)
  if state() == 'cancelled' then
    if call('ZCARD', 'leases') == 0 then no_items() end
  elseif #list > 0 then
    local count = count_of(list)
    local member = text(losses) .. '|' .. text(count) .. '|' .. written_as(list)
    write('ZADD', 'back', list[1][1], member)
    add('given_back', count)
  end
end
local function take_retried(taken, size)
  if size <= 0 or call('EXISTS', 'retry') == 0 then return 0 end
  local indices = call('ZRANGE', 'retry', 0, size - 1)
  local kept = {}
  in_parts(indices, function(part)
    for _, one in ipairs(call('HMGET', 'failures', unpack(part))) do kept[#kept + 1] = one end
  end)
  local gone, losses = {}, 0
  for at, index in ipairs(indices) do
    local was_lost = cjson.decode(kept[at])[2] == LOST
    if was_lost and #taken > 0 then losses = -1 break end
    gone[#gone + 1] = index
    add_range(taken, tonumber(index), tonumber(index))
    if was_lost then losses = LOSSES - 1 break end
  end
  in_parts(gone, function(part) call('ZREM', 'retry', unpack(part)) end)
  return losses
end
-- What has lost its worker before goes alone; else as many items as a chunk may have.
local function take()
  local size, taken, count = get('size'), {}, 0
  while count < size do
    local top = call('ZRANGE', 'back', 0, 0)[1]
    if not top then break end
    local losses, given, ranges = string.match(top, '^(%d+)|(%d+)|(.*)$')
    losses = tonumber(losses)
    if losses > 0 and count > 0 then return 0, taken end
    call('ZREM', 'back', top)
    add('given_back', -tonumber(given))
    local head, tail = split(parse(ranges), size - count)
    give_back(losses, tail)
    for _, range in ipairs(head) do taken[#taken + 1] = range end
    count = count + count_of(head)
    if losses > 0 then return losses, taken end
  end
  local losses = take_retried(taken, size - count)
  if losses ~= 0 then return math.max(losses, 0), taken end
  local first = get('next')
  local upto = math.min(get('submitted'), first + size - count_of(taken))
  if upto > first then add_range(taken, first, upto - 1) end
  put('next', upto)
  return 0, taken
end
"""
)
