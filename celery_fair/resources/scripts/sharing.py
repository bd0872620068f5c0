"""One resource, as `celery_fair.resources.shared` has it: its counts, budgets, debts and pace."""

from __future__ import annotations

from typing import Final

SHARING: Final = """
local BUDGETS = {
  {left = 'requests', owed = 'o_requests', rate = 'requests', most = 'most_requests'},
  {left = 'tokens', owed = 'o_tokens', rate = 'tokens', most = 'most_tokens'},
}
local function lowered(one)
  local places = one.rule.places
  return places and max(floor(places * one.rate + 1e-9), 1)
end
local function ceiling(one)
  return ceil((lowered(one) or 0) * one.rule.share - 1e-9)
end
local function mean_of(one) return one.mean < 0 and C.FIRST_MEAN or one.mean end
local function put(one, budget, more)
  local most, least = one.rule[budget.most] * one.rate, -C.DEBT * one.rule[budget.rate]
  one[budget.left] = max(min(one[budget.left] + more, most), least)
end
local function lend(one, budget, more)
  local most = one.rule[budget.most]
  one[budget.owed] = min(max(one[budget.owed] + more, -most), most)
end
local function paced(one)
  local risen = one.rate + max(one.spent - max(one.pace_at, one.shut_until), 0) * C.INCREASE
  one.rate, one.pace_at = min(risen, 1), max(one.spent, one.pace_at)
end
local function owe(one, elapsed)
  if one.b_waiting == 0 then
    local kept = max(1 - elapsed / C.FORGET, 0)
    one.o_places, one.o_requests = one.o_places * kept, one.o_requests * kept
    one.o_tokens = one.o_tokens * kept
    return
  end
  local share, places = one.rule.share, lowered(one)
  if places then
    local due = (share * places - one.batch) * elapsed
    local most = 2 * mean_of(one) * ceiling(one)
    one.o_places = min(max(one.o_places + due, -mean_of(one)), most)
  end
  for _, budget in ipairs(BUDGETS) do
    local per_second = one.rule[budget.rate]
    if per_second then lend(one, budget, share * per_second * one.rate * elapsed) end
  end
end
local function advance(one)
  local elapsed, gone = at / 1000 - one.at, spent / 1000 - one.spent
  one.at, one.spent = at / 1000, spent / 1000
  paced(one)
  for _, budget in ipairs(BUDGETS) do
    local per_second = one.rule[budget.rate]
    if per_second then put(one, budget, per_second * one.rate * gone) end
  end
  owe(one, elapsed)
end
local function new_shared()
  local one = {}
  for _, field in ipairs(FIELDS) do one[field] = 0 end
  one.at, one.spent, one.mean, one.rate = at / 1000, spent / 1000, -1, 1
  one.cut_at, one.shut_until = C.NEVER, C.NEVER
  return one
end
local function get(name)
  local one = shared[name]
  if one then return one end
  local packed, place = call('HGET', prefix, 'r.' .. name), 0
  one = new_shared()
  if packed then
    for number in string.gmatch(packed, '%S+') do
      place = place + 1
      one[FIELDS[place]] = tonumber(number)
    end
  end
  one.rule = rules[name] or {share = 0}
  if rules[name] and (one.at ~= at / 1000 or one.spent ~= spent / 1000) then advance(one) end
  shared[name] = one
  return one
end
local function waiting_field(kind) return kind == 'batch' and 'b_waiting' or 'i_waiting' end
local function refuse(one, said)
  paced(one)
  if one.spent - one.cut_at >= C.ONE_BURST then
    local calm = one.spent - max(one.cut_at, one.shut_until) >= C.CALM
    one.rate = max(one.rate * C.DECREASE, C.LEAST)
    one.strikes = calm and 1 or one.strikes + 1
    one.cut_at = one.spent
  end
  local seconds
  if said then
    seconds = min(max(said, 0), C.LONGEST)
  else
    seconds = min(C.SHUT * 2 ^ min(one.strikes - 1, 16), C.LONGEST_DEFAULT)
  end
  one.shut_until = max(one.shut_until, one.spent + seconds)
  for _, budget in ipairs(BUDGETS) do
    if one.rule[budget.rate] then put(one, budget, 0) end
  end
end

-- Leases and lines.
local function forget(lease, owner)
  local found = call('HGET', WAITING, lease)
  if not found then return end
  local line, worker = string.match(found, '^%S+ %S+ (%S+) %S+ (.*)$')
  if owner and worker ~= owner then return end
  call('HDEL', WAITING, lease)
  call('ZREM', line_key(line), lease)
  if call('EXISTS', line_key(line)) == 0 then call('SREM', LINES, line) end
  local field = waiting_field(kind_of(line))
  for _, name in ipairs(names_of(line)) do
    local one = get(name)
    one[field] = one[field] - 1
  end
end
local function hold(worker, lease, line, tokens)
  call('HSET', LEASES, lease, text(at) .. ' ' .. text(tokens) .. ' ' .. line .. ' ' .. worker)
  call('ZADD', UNTIL, at + C.LEASE, lease)
  local kind = kind_of(line)
  for _, name in ipairs(names_of(line)) do
    local one = get(name)
    one[kind] = one[kind] + 1
  end
end
local function spend(line, tokens, sign)
  local needs, is_batch = {1, tokens}, kind_of(line) == 'batch'
  for _, name in ipairs(names_of(line)) do
    local one = get(name)
    for place, budget in ipairs(BUDGETS) do
      if one.rule[budget.rate] then
        put(one, budget, -sign * needs[place])
        if is_batch then lend(one, budget, -sign * needs[place]) end
      end
    end
  end
end
local function release(lease, began)
  local found = call('HGET', LEASES, lease)
  if not found then return end
  call('HDEL', LEASES, lease)
  call('ZREM', UNTIL, lease)
  local since, tokens, line = string.match(found, '^(%S+) (%S+) (%S+) ')
  local kind, held = kind_of(line), at / 1000 - tonumber(since) / 1000
  for _, name in ipairs(names_of(line)) do
    local one = get(name)
    one[kind] = one[kind] - 1
    if kind == 'batch' and began then
      one.mean = one.mean < 0 and held or one.mean + (held - one.mean) * C.MEAN_WEIGHT
    end
  end
  if not began then spend(line, tonumber(tokens), -1) end
end
local function leave(worker)
  local found = call('HGET', WORKERS, worker)
  if found then
    local wants = cjson.decode(found).wants
    table.sort(wants)
    for _, lease in ipairs(wants) do forget(lease, worker) end
    call('HDEL', WORKERS, worker)
  end
  call('ZREM', SEEN, worker)
end
local function end_overdue()
  local overdue = call('ZRANGEBYSCORE', UNTIL, '-inf', at, 'LIMIT', 0, C.OVERDUE)
  for _, lease in ipairs(overdue) do release(lease, true) end
  local silent = call('ZRANGEBYSCORE', SEEN, '-inf', at - C.LEASE, 'LIMIT', 0, C.MOST_SILENT)
  for _, worker in ipairs(silent) do leave(worker) end
end
-- By no rules: those of who only looks may be others than the workers', whose budgets would be cut
-- to them. What is got after it goes by these, and is not kept; but what is new begins.
local function only_look(names)
  local own = rules
  rules = {}
  open()
  end_overdue()
  for _, name in ipairs(names) do get(name) end
  save()
  rules, shared = own, {}
end
"""
