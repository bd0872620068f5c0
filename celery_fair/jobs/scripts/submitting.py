"""What producers ask: to keep a job, its items, and tickets for them."""

from __future__ import annotations

from typing import Final

from celery_fair.jobs.scripts.counting import COUNTING
from celery_fair.jobs.scripts.pieces import PIECES
from celery_fair.jobs.scripts.record import RECORD
from celery_fair.state import Script

ALL: Final = RECORD + PIECES + COUNTING

#: ARGV: the plan as JSON, then fields of the record and their values. Answers the task of the job
#: that is there, or nothing. It also looks at three of the set of all jobs, any three, and takes
#: out those that have expired: so the set stays in proportion, whoever never lists them.
CREATE: Final = Script(
    RECORD
    + """
if open(job) then return meta.task end
for at = 5, #ARGV, 2 do put(ARGV[at], ARGV[at + 1]) end
for _, field in ipairs({'submitted', 'closed', 'next', 'done', 'failed', 'running', 'yields',
                        'lost', 'given_back', 'finished_since', 'failed_since'}) do
  put(field, 0)
end
for _, field in ipairs({'first', 'started', 'reason'}) do put(field, '') end
for _, field in ipairs({'created', 'last', 'producer', 'progress_called'}) do put(field, now) end
put('room', KEPT_FAILURES)
put('state', 'running')
write('SET', 'plan', ARGV[4])
save(true)
local all = prefix .. 'jobs'
local from = now % math.max(redis.call('ZCARD', all) - 2, 1)
for _, old in ipairs(redis.call('ZRANGE', all, from, from + 2)) do
  if redis.call('EXISTS', prefix .. 'job.meta.' .. old) == 0 then redis.call('ZREM', all, old) end
end
redis.call('ZADD', all, now, job)
look_soon()
"""
)

#: ARGV: the index of the first item, then the items. Answers how many there are now, the room, and
#: 'stop' for a cancelled job, 'more' for more items than it was closed with.
APPEND: Final = Script(
    RECORD
    + """
if not open(job) then return 'NOJOB' end
local first, submitted = tonumber(ARGV[4]), get('submitted')
if state() == 'cancelled' then return {submitted, 0, 'stop'} end
local from, upto = submitted, first + #ARGV - 4
local new = first <= submitted and math.max(upto - from, 0) or 0
local function room()
  if meta.closed == '1' then return 0 end
  return math.max(get('ahead') - (get('submitted') - get('done') - get('failed')), 0)
end
if meta.closed == '1' and new > 0 then return {submitted, 0, 'more'} end
local count, fields = math.min(new, room()), {}
for index = from, from + count - 1 do
  fields[#fields + 1] = text(index)
  fields[#fields + 1] = ARGV[5 + index - first]
  if #fields == 2000 or index == from + count - 1 then
    write('HSET', 'items', unpack(fields))
    fields = {}
  end
end
put('producer', now)
if count > 0 then
  add('submitted', count)
  put('last', now)
end
save(true)
return {get('submitted'), room(), ''}
"""
)

#: ARGV: how many items there are. Answers 'other' where there are not, or the callbacks due.
CLOSE: Final = Script(
    ALL
    + """
if not open(job) then return 'NOJOB' end
if state() == 'cancelled' then return {'', ''} end
if tonumber(ARGV[4]) ~= get('submitted') then return {'other', meta.submitted} end
if meta.closed == '1' then return {'', ''} end
put('closed', 1)
put('last', now)
local calls = settle()
save(true)
return {'', '', unpack(calls)}
"""
)

#: ARGV: tickets. Answers those that were granted.
GRANT: Final = Script(
    ALL
    + """
if not open(job) then return 'NOJOB' end
local tickets = {}
for at = 4, #ARGV do tickets[at - 3] = ARGV[at] end
local granted = grant(tickets)
save(true)
return granted
"""
)
