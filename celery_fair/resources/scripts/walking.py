"""One walk along the lines, as `celery_fair.resources.walk` has it."""

from __future__ import annotations

from typing import Final

#: ``walk(worker)`` grants to the worker and wakes others; then ``wait_of`` tells what one lacks.
WALKING: Final = """
local lines, drafts, closed, asleep, woken = {}, {}, {}, {}, {}
local aside, granted = 0, {}
local function draft_of(name)
  local draft = drafts[name]
  if not draft then
    draft = {places = 0, batch = 0, 0, 0}
    drafts[name] = draft
  end
  return draft
end
local function owes(name, tokens)
  local one, draft, needs = get(name), draft_of(name), {1, tokens}
  if one.spent < one.shut_until then return false end
  if one.rule.places
     and (one.o_places < min(mean_of(one), C.OWED) or one.batch + draft.batch >= ceiling(one)) then
    return false
  end
  for place, budget in ipairs(BUDGETS) do
    if one.rule[budget.rate] and needs[place] > 0
       and one[budget.owed] - draft[place] < min(needs[place], one.rule[budget.most]) then
      return false
    end
  end
  return true
end
local function lacks_place(one, draft, keeps)
  local places = lowered(one)
  if not places then return nil end
  local total = one.interactive + one.batch
  local free = places - total - draft.places
  if free < 1 then
    if total + 1 <= places then return 'in_line' end
    return total + 1 > one.rule.places and 'running' or 'slowed'
  end
  if keeps and free <= min(one.rule.reserved, places - 1) then return 'reserved' end
end
local function lacks(name, kind, tokens)
  local one, draft, needs = get(name), draft_of(name), {1, tokens}
  local keeps = kind == 'batch' and not owes(name, tokens)
  local short = lacks_place(one, draft, keeps)
  if short then return {short, C.RENEW} end
  for place, budget in ipairs(BUDGETS) do
    local per_second = one.rule[budget.rate]
    if per_second and needs[place] > 0 then
      local most = one.rule[budget.most] * one.rate
      local kept = keeps and one.rule.reserve * most or 0
      local missing = min(needs[place] + kept, most) - (one[budget.left] - draft[place])
      if missing > 0 then return {budget.left, missing / (per_second * one.rate)} end
    end
  end
end
local function is_asleep(worker)
  if asleep[worker] == nil then
    local found = call('HGET', WORKERS, worker)
    local one = found and cjson.decode(found)
    asleep[worker] = not one or one.seen + C.SILENT <= at
                     or (one.woken >= 0 and one.woken + C.OFFER <= at)
  end
  return asleep[worker]
end
local function first_of(line, worker)
  while not line.first do
    local found = call('ZRANGE', line_key(line.name), line.place, line.place, 'WITHSCORES')
    if not found[1] then return nil end
    local waits = call('HGET', WAITING, found[1])
    local tokens, since, owner = string.match(waits or '', '^%S+ (%S+) %S+ (%S+) (.*)$')
    if not waits then
      call('ZREM', line_key(line.name), found[1])
    elseif owner == worker or not is_asleep(owner) then
      line.first = {lease = found[1], number = tonumber(found[2]), tokens = tonumber(tokens),
                    since = tonumber(since), worker = owner}
    else
      line.place = line.place + 1
    end
  end
  return line.first
end
local function next_line(kind, passed, worker)
  local found
  for _, line in ipairs(lines) do
    if line.kind == kind and not line.lacks and not passed[line] then
      local first = first_of(line, worker)
      if first and (not found or first.number < found.first.number) then found = line end
    end
  end
  return found
end
local function goes_first(line)
  local contended = false
  for _, name in ipairs(line.uses) do
    if get(name).i_waiting > 0 then
      contended = true
      if not owes(name, line.first.tokens) then return false end
    end
  end
  return contended
end
local function set_aside(line)
  for _, name in ipairs(line.uses) do
    local draft = draft_of(name)
    draft.places = draft.places + 1
    if line.kind == 'batch' then draft.batch = draft.batch + 1 end
    draft[1] = draft[1] + 1
    draft[2] = draft[2] + line.first.tokens
  end
end
local function is_kept_places(short, since)
  local waited = at / 1000 - since / 1000
  return waited >= C.PATIENT and short[2] <= C.PATIENT and short[1] ~= 'reserved'
end
local function try(line, worker)
  local first = line.first
  for _, name in ipairs(line.uses) do
    local one = get(name)
    local shut = line.kind == 'batch' and one.spent < one.shut_until
                 and {'slowed', one.shut_until - one.spent}
    local short = shut or closed[name] or lacks(name, line.kind, first.tokens)
    if short then
      if not shut and not closed[name] then
        closed[name] = short
        if is_kept_places(short, first.since) then set_aside(line) end
      end
      line.lacks = {name, short[1], short[2]}
      return
    end
  end
  if first.worker == worker then
    forget(first.lease)
    hold(worker, first.lease, line.name, first.tokens)
    spend(line.name, first.tokens, 1)
    granted[#granted + 1] = first.lease
  else
    woken[first.worker] = true
    aside = aside + 1
    set_aside(line)
    line.place = line.place + 1
  end
  line.first = nil
end
local function wake()
  for worker in pairs(woken) do
    local one = cjson.decode(call('HGET', WORKERS, worker))
    if one.woken < 0 then
      one.woken = at
      call('HSET', WORKERS, worker, cjson.encode(one))
      call('DEL', wake_key(worker))
      call('RPUSH', wake_key(worker), '1')
      call('PEXPIRE', wake_key(worker), C.LEASE)
    end
  end
end
local function walk(worker)
  for _, name in ipairs(call('SMEMBERS', LINES)) do
    local line = {name = name, kind = kind_of(name), uses = names_of(name), place = 0}
    local known = true
    for _, use in ipairs(line.uses) do known = known and rules[use] ~= nil end
    if known then
      lines[#lines + 1] = line
      lines[name] = line
    end
  end
  for _, pass in ipairs({{'batch', true}, {'interactive'}, {'batch'}}) do
    local passed = {}
    local line = next_line(pass[1], passed, worker)
    while line and #granted < C.GRANTED and aside < C.ASIDE do
      if pass[2] and not goes_first(line) then passed[line] = true
      else try(line, worker) end
      line = next_line(pass[1], passed, worker)
    end
  end
  wake()
  return granted
end
local function wait_of(lease, name, tokens)
  local line = lines[name]
  local soon = #granted >= C.GRANTED and 0 or C.RENEW
  local lacked = line.lacks or {line.uses[1], 'in_line', soon}
  local before, more = call('ZRANK', line_key(name), lease), 0
  if lacked[2] == 'requests' or lacked[2] == 'tokens' then
    local one = get(lacked[1])
    local need = lacked[2] == 'requests' and 1 or tokens
    more = before * need / ((one.rule[lacked[2]] or 1) * one.rate)
  end
  return {lease, lacked[1], lacked[2], text(lacked[3] + more), before}
end
"""
