"""What anybody asks, and what changes nothing."""

from __future__ import annotations

from typing import Final

from celery_fair.jobs.scripts.record import RECORD
from celery_fair.state import Script

PLAN: Final = Script(RECORD + "job = ARGV[3] return call('GET', 'plan')\n")

#: Answers the clock, the plan and the record, as fields and values.
PROGRESS: Final = Script(
    RECORD
    + """
job = ARGV[3]
return {text(now), call('GET', 'plan'), call('HGETALL', 'meta')}
"""
)

#: ARGV: where to start, and how many. Answers the clock, then each one's plan and record. Those
#: that have expired are taken out of the set on the way.
LIST: Final = Script(
    RECORD
    + """
local all, start, count = prefix .. 'jobs', tonumber(ARGV[4]), tonumber(ARGV[5])
local rows = {text(now)}
while #rows <= count do
  local ids = redis.call('ZREVRANGE', all, start + #rows - 1, start + count - 1)
  local gone = 0
  for _, id in ipairs(ids) do
    job = id
    local plan = call('GET', 'plan')
    if plan then rows[#rows + 1] = {plan, call('HGETALL', 'meta')}
    else gone = gone + redis.call('ZREM', all, id) end
  end
  if gone == 0 then break end
end
return rows
"""
)

#: ARGV: which failure is the first, and how many. Answers indices and what is kept of each.
FAILURES: Final = Script(
    RECORD
    + """
job = ARGV[3]
if call('EXISTS', 'plan') == 0 then return 'NOJOB' end
local start = tonumber(ARGV[4])
local indices = call('ZRANGE', 'failed', start, start + tonumber(ARGV[5]) - 1)
if #indices == 0 then return {{}, {}} end
return {indices, call('HMGET', 'failures', unpack(indices))}
"""
)

#: ARGV: the first index and how many. Answers how many items there are, then indices and results.
RESULTS: Final = Script(
    RECORD
    + """
if not open(job) then return 'NOJOB' end
local found, at = {meta.submitted}, tonumber(ARGV[4])
local upto = math.min(at + tonumber(ARGV[5]), get('submitted'))
while at < upto do
  local number, fields = math.floor(at / BLOCK), {}
  for index = at, math.min(upto, (number + 1) * BLOCK) - 1 do fields[#fields + 1] = text(index) end
  for place, result in ipairs(call('HMGET', block(number), unpack(fields))) do
    if result then
      found[#found + 1] = fields[place]
      found[#found + 1] = result
    end
  end
  at = (number + 1) * BLOCK
end
return found
"""
)
