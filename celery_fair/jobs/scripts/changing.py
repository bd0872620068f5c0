"""What operators ask: to pause a job, go on, end it, try again, forget it."""

from __future__ import annotations

from typing import Final

from celery_fair.jobs.scripts.record import RECORD
from celery_fair.jobs.scripts.submitting import ALL
from celery_fair.state import Script

_BEGIN: Final = ALL + "if not open(job) then return 'NOJOB' end may_be_full()\n"

#: ARGV: the reason. Answers 0 for a job that has ended, as the next two do.
PAUSE: Final = Script(
    _BEGIN
    + """
if ended() then return 0 end
if state() == 'running' then
  pause(ARGV[4])
  put('last', now)
end
save(true)
return 1
"""
)

RESUME: Final = Script(
    _BEGIN
    + """
if ended() then return 0 end
if state() == 'paused' then
  begin_anew()
  put('state', 'running')
  put('reason', '')
end
save(true)
return 1
"""
)

#: ARGV: the reason.
CANCEL: Final = Script(
    _BEGIN
    + """
if ended() then return 0 end
pause(ARGV[4])
put('state', 'cancelled')
put('last', now)
put('given_back', 0)
put('swept', 0)
redis.call('UNLINK', key('back'), key('retry'))
if call('ZCARD', 'leases') == 0 then no_items() end
look_soon()
save(true)
return 1
"""
)

#: Answers how many. They stay where they are kept: it is O(1) unless others are still to be tried.
RETRY: Final = Script(
    _BEGIN
    + """
local count = get('failed')
if state() == 'cancelled' or count == 0 then return 0 end
if call('EXISTS', 'retry') == 0 then
  redis.call('RENAME', key('failed'), key('retry'))
else
  redis.call('ZUNIONSTORE', key('retry'), 2, key('retry'), key('failed'))
  call('DEL', 'failed')
end
written.retry = true
put('failed', 0)
put('retried', 1)
begin_anew()
put('swept', 0) -- its results have to live for longer again
if ended() then put('state', 'running') end
save(true)
return count
"""
)

#: ARGV: a callback's name and number.
CALLED: Final = Script(
    RECORD
    + """
if not open(job) then return 0 end
may_be_full()
local due = 'due.' .. ARGV[4]
if meta['number.' .. ARGV[4]] == ARGV[5] then call('HDEL', 'meta', due) end
return 1
"""
)

#: Answers 'more' until it has dropped all, a part of the results at a time, and then nothing; or
#: the state of a job that has not ended.
FORGET: Final = Script(
    RECORD
    + """
if not open(job) then return 'NOJOB' end
may_be_full()
if not ended() then return state() end
local blocks = meta.results == '1' and math.ceil(get('submitted') / BLOCK) or 0
local left = math.min(tonumber(meta.blocks_left) or blocks, blocks)
local upto = math.max(left - 500, 0)
for number = upto, left - 1 do redis.call('UNLINK', key(block(number))) end
put('blocks_left', upto)
if upto > 0 then
  save(false)
  return 'more'
end
for _, part in ipairs(PARTS) do redis.call('UNLINK', key(part)) end
redis.call('ZREM', prefix .. 'jobs', job)
redis.call('ZREM', open_set(), job)
return ''
"""
)
