"""One worker's turn: what has ended, what runs, what is wanted, and what it gets of that."""

from __future__ import annotations

from typing import Final

from celery_fair.resources.scripts.record import RECORD
from celery_fair.resources.scripts.sharing import SHARING
from celery_fair.resources.scripts.walking import WALKING
from celery_fair.state import Script

#: Its own: the worker, its store's token and the number of the call, and the call as JSON.
TURN: Final = Script(
    RECORD
    + SHARING
    + WALKING
    + """
local worker, token, number, said = ARGV[5], ARGV[6], tonumber(ARGV[7]), cjson.decode(ARGV[8])
open()
local found = call('HGET', WORKERS, worker)
local before = found and cjson.decode(found) or {wants = {}, offered = {}}
if before.token == token and number <= before.number then return false end
end_overdue()
for _, one in ipairs(said.ended) do release(one[1], one[2]) end
local named, lost = {}, {}
local function renew(lease, line, tokens)
  local held = call('HGET', LEASES, lease)
  if not held then return false end
  local kept, owner = string.match(held, '^(%S+ %S+ %S+ )(.*)$')
  if owner ~= worker then call('HSET', LEASES, lease, kept .. worker) end
  call('ZADD', UNTIL, at + C.LEASE, lease)
  return true
end
for _, one in ipairs(said.running) do
  named[one[1]] = true
  if not renew(one[1]) then
    forget(one[1])
    hold(worker, one[1], one[2], one[3])
    lost[#lost + 1] = one[1]
  end
end
for _, one in ipairs(said.wants) do named[one[1]] = true end
table.sort(before.offered)
for _, lease in ipairs(before.offered) do
  local held = not named[lease] and call('HGET', LEASES, lease)
  if held and string.match(held, '^%S+ %S+ %S+ (.*)$') == worker then release(lease, false) end
end
table.sort(before.wants)
for _, lease in ipairs(before.wants) do
  if not named[lease] then forget(lease, worker) end
end
-- Of all wants at once; Lua takes no more than some thousands of arguments.
local function found_in(key)
  local found = {}
  for first = 1, #said.wants, 1000 do
    local leases = {}
    for place = first, min(first + 999, #said.wants) do
      leases[#leases + 1] = said.wants[place][1]
    end
    for place, value in ipairs(call('HMGET', key, unpack(leases))) do
      found[leases[place]] = value
    end
  end
  return found
end
local held, waiting = found_in(LEASES), found_in(WAITING)
-- A line that was evicted is made anew by those who stand in it.
local known, gone = {}, {}
local function know(line)
  if known[line] then return end
  known[line] = true
  gone[line] = call('EXISTS', line_key(line)) == 0
  call('SADD', LINES, line)
end
local function line_up(lease, line, place)
  call('ZADD', line_key(line), place, lease)
end
local again, mine = {}, {}
for _, one in ipairs(said.wants) do
  local lease, line, tokens = one[1], one[2], one[3]
  if held[lease] and renew(lease) then
    again[#again + 1] = lease
  else
    local waits = waiting[lease]
    know(line)
    if not waits then
      meta.numbers = meta.numbers + 1
      local kept = text(meta.numbers) .. ' ' .. text(tokens) .. ' ' .. line
      kept = kept .. ' ' .. text(at) .. ' ' .. worker
      call('HSET', WAITING, lease, kept)
      line_up(lease, line, meta.numbers)
      local field = waiting_field(kind_of(line))
      for _, name in ipairs(names_of(line)) do
        local of = get(name)
        of[field] = of[field] + 1
      end
    else
      local place, kept, owner = string.match(waits, '^(%S+)( %S+ %S+ %S+ )(.*)$')
      if owner ~= worker then call('HSET', WAITING, lease, place .. kept .. worker) end
      if gone[line] then line_up(lease, line, place) end
    end
    mine[#mine + 1] = one
  end
end
for line in pairs(known) do call('PEXPIRE', line_key(line), C.KEPT) end
local record = {token = token, number = number, seen = at, woken = -1, wants = {}, offered = {}}
for place, one in ipairs(mine) do record.wants[place] = one[1] end
local starting, granted = meta.starting - at, {}
call('DEL', wake_key(worker))
if starting <= 0 then granted = walk(worker) end
local taken, waits = {}, {}
for _, lease in ipairs(granted) do
  taken[lease] = true
  again[#again + 1] = lease
end
for _, one in ipairs(mine) do
  if starting > 0 then
    waits[#waits + 1] = {one[1], names_of(one[2])[1], 'starting', text(starting / 1000), 0}
  elseif not taken[one[1]] then
    waits[#waits + 1] = wait_of(one[1], one[2], one[3])
  end
end
record.offered = again
call('HSET', WORKERS, worker, cjson.encode(record))
call('ZADD', SEEN, at, worker)
save()
return {come(), again, lost, waits}
"""
)
