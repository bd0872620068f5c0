"""An example of each ``fair job`` command, as `celery_fair.cli.examples` has them."""

from __future__ import annotations

from typing import Final

LIST: Final = """\
$ celery -A shop fair job list
3f2a9c1e            shop.summarize: running, 343 of 1 000 done (34 %), 3
                    failed, 71/s, 7.1–9.2 s left
nightly-2026-11-30  shop.export: running, 278 of 5 000 done (5 %), 12/s,
                    about 6.6 min left
"""

SHOW: Final = """\
$ celery -A shop fair job show 3f2
3f2a9c1e-6f0b-4c57-9a52-0f8f2c1c9d11  shop.summarize, batch
  state   running
  items   975 of 1 000 done (97 %), 3 failed
  pace    80/s, 0–277 ms left, 22 items run now, 30 in a chunk
  times   submitted 31 s ago, first item done 12 s ago, last sign 255 ms
          ago
  failed  item 17: ValueError 11 s ago
          item 93: ValueError 10 s ago
          item 200: ValueError 9.0 s ago
"""

WATCH: Final = """\
$ celery -A shop fair job watch 3f2 | cat
running, 455 of 1 500 done (30 %), 3 failed, 82/s, 7.5–13 s left
running, 1 391 of 1 500 done (92 %), 3 failed, 91/s, 111 ms – 1.2 s left
finished with failures, 1 497 of 1 500 done (99 %), 3 failed
$ echo $?
1
"""

PAUSE: Final = """\
$ celery -A shop fair job pause 3f2 --reason 'model is down'
3f2a9c1e-6f0b-4c57-9a52-0f8f2c1c9d11  running → paused
  paused (model is down, by ann@ops), 180 of 1 500 done (12 %), 2 failed
"""

RESUME: Final = """\
$ celery -A shop fair job resume 3f2
3f2a9c1e-6f0b-4c57-9a52-0f8f2c1c9d11  paused → running
  running, 276 of 1 500 done (18 %), 3 failed
"""

CANCEL: Final = """\
$ celery -A shop fair job cancel nightly-2026-11-30
nightly-2026-11-30  running → cancelled
  cancelled (by ann@ops), 551 of 5 000 done (11 %)
"""

RETRY: Final = """\
$ celery -A shop fair job retry 3f2
3 items of 3f2a9c1e-6f0b-4c57-9a52-0f8f2c1c9d11 will run again.
3f2a9c1e-6f0b-4c57-9a52-0f8f2c1c9d11  finished with failures → running
  running, 1 497 of 1 500 done (99 %)
"""

FAILURES: Final = """\
$ celery -A shop fair job failures 3f2
item 17: ValueError 15 s ago
item 93: ValueError 14 s ago
item 200: ValueError 13 s ago
"""

RESULTS: Final = """\
$ celery -A shop fair job results 3f2 --count 2
{"index": 0, "result": "summary 0"}
{"index": 1, "result": "summary 1"}
"""

JOB_EXAMPLES: Final = {
    "job": LIST,
    "job list": LIST,
    "job show": SHOW,
    "job watch": WATCH,
    "job pause": PAUSE,
    "job resume": RESUME,
    "job cancel": CANCEL,
    "job retry": RETRY,
    "job failures": FAILURES,
    "job results": RESULTS,
}
