"""An example of each command, as its ``--help`` shows it: what was typed, and what came.

Of those that need no more than a worker, a test compares what is here with what comes now.
"""

from __future__ import annotations

from typing import Final

from celery_fair.cli.job_examples import JOB_EXAMPLES

STATUS: Final = """\
$ celery -A shop fair status
web1@shop   gate open for 8.3 s (started)
  4 slots, 1 in reserve
               in use  held  backlog  wait p50     p95     p99
  interactive       0     0        0     14 ms  183 ms  183 ms
  batch             3     0       35     2.1 s   4.0 s   4.1 s
  batch: guaranteed 20 %, actual 71 %; last start 1.1 s ago
"""

TOP: Final = """\
$ celery -A shop fair top --once
fair top   1 worker, 4 slots   gates: 1 open                    10:12:57
            running  held     ready   ETA limited wait p95
interactive       0     0         0     0       0   183 ms
batch             3     0        23     0       0    6.5 s
slots       BBBr  3 batch, 1 kept in reserve
batch share received 71 %, guaranteed 20 %; last start 1.1 s ago

web1@shop  gate open 11 s  started
BBBr             interactive   0 held   183 ms
                 batch         0 held    6.5 s        got 71 %, due 20 %
I interactive  B batch  r free, kept in reserve  . free
"""

EXPLAIN: Final = """\
$ celery -A shop fair explain eb2f0bf2-62d9-47cf-84ca-0ade6dd3e797
eb2f0bf2-62d9-47cf-84ca-0ade6dd3e797 waits at the broker, 23rd in line in
celery.batch
  task    shop.summarize, batch, by celery.batch
  why     interactive tasks first for 2.3 s: 50 wait; 4 of 4 running (4
          interactive, 0 batch); the gate has protected them for 4.1 s
          22 before it in celery.batch
  times   ready 16 s ago
  starts  in 19 s to 60 s: 22 before it, 0.96 started a second over the
          last minute, 0.46 a second by slots and mean run time
"""

RESOURCES: Final = """\
$ celery -A shop fair resources
gpu: 2 of 2 running (1 interactive, 1 batch), 3 wait (3 batch)
  web1@shop  batch  12 s  eb2f0bf2-62d9-47cf-84ca-0ade6dd3e797
  web2@shop  interactive  1.3 s  0f7c5e0e-5c1a-4a5f-9f0e-3c1f6f2f4f11
openai: 0 of 8 running; 18 000 tokens left now
"""

DOCTOR: Final = """\
$ celery -A shop fair doctor
F001 warning  1 task has no kind: shop.answer
     why   Called from outside a task they are interactive (default_kind);
           bulk work among them stands in the way of people.
     cure  Say it where they are made, @fair_task(kind=…), or by name,
           kinds={"reports.*": "batch"}; kinds={"*": "interactive"} as the
           last entry says that the default is meant.
1 warning; looked at the app and its workers.
"""

BENCH: Final = """\
$ celery -A shop fair bench --seconds 20 --save after.json
probes of 21 s   1 worker with celery-fair, 4 slots
             sent  ran  wait p50    p95    p99    max  slots used
interactive    20   20      7 ms  17 ms  28 ms  28 ms         0.0
batch          20   20     7.3 s   16 s   17 s   17 s         2.7
slots in use 67 %; batch's part of it 100 %; 5.8 tasks a second
"""

SIMULATE: Final = """\
$ celery -A shop fair simulate --interactive-rate 4 --interactive-run 0.05 \\
    --batch-backlog 400 --batch-run 1.5-2.5 --try reserve=2 --plain fifo
1 worker of 8 slots, 10 min after 60 s, 3 seeds
interactive wait      p50              p95        batch/s  share   used
fair                 0 ms     42 ms ± 2 ms  3.48 ± 0.0041   87 %   90 %
reserve=2            0 ms      0 ms ± 0 ms   2.99 ± 0.019   75 %   77 %
fifo              1.7 min  1.8 min ± 3.0 s    3.9 ± 0.017   98 %  100 %
fair       █▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒··  ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇
reserve=2  █▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒····  ▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆
fifo       ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒  ██████████████████████████████
"""

ADVISE: Final = """\
$ celery -A shop fair advise --slo "interactive p95 < 2s" --batch 2500/h \\
    --interactive-rate 4 --interactive-run "lognormal 0.2 1.5" \\
    --batch-run "lognormal 2 15" --slots 8
1 worker, 9.2 min after 72 s simulated
today: 8 slots, reserve=auto, batch_share=0.2; 5 seeds
  interactive p95 < 2s  0 ms ± 0 ms    met
  batch 2500/h          2871 ± 317 /h  not surely met
advice: 7 slots, reserve=2, batch_share=0.2; 8 seeds
  interactive p95 < 2s  549 ms ± 66 ms  met
  batch 2500/h          3461 ± 188 /h   met
Take 7 slots, reserve=2, batch_share=0.2.
Batch needs 2.8 slots by itself and interactive 1.7, 3 for its waits (Erlang
C): a first guess of 6 slots.
With 6 slots the nearest is reserve=2, batch_share=0.2: batch 2500/h comes
to 2862 ± 631 /h, not surely met.
Batch that yields would do with fewer: 6 slots, reserve=0, batch_share=0.2,
batch yields every 1.0 s.
  app.conf.fair = {'reserve': 2}  # with what it has
  celery -A proj worker --concurrency 7
interactive p95 (up) and batch (right)
  < 2.0 s |--------------------------------------------------o---------x
          |                                             o           x
          |
          |                                      A
          |
          |                                o
          |
          |
          |
          |
    10 ms |                 o        o    T
          +0                                                     5481/h
T today, A advice, o 7 slots by reserve, x today's 8; - what is asked for
"""

PAUSE: Final = """\
$ celery -A shop fair pause batch
batch
  web1@shop  running → paused
  web2@shop  running → paused
Lasts while a worker is left that knows it; --keep keeps it over restarts.
"""

RESUME: Final = """\
$ celery -A shop fair resume batch
batch
  web1@shop  paused → running
  web2@shop  paused → running
"""

SET: Final = """\
$ celery -A shop fair set batch_share=0.3 protect_backlog=5
batch_share
  web1@shop  0.2 → 0.3
  web2@shop  0.2 → 0.3
protect_backlog
  web1@shop  10 → 5
  web2@shop  10 → 5
Lasts while a worker is left that knows it; --keep keeps it over restarts.
"""

SETTINGS: Final = """\
$ celery -A shop fair settings --diff
batch_share = 0.2 (default): this app
batch_share = 0.3 (live, by ann@ops): web1@shop
batch_share = 0.4 (live, by bob@ops): web2@shop
"""

MODE: Final = """\
$ celery -A shop fair mode observe
mode
  web1@shop  enforce → observe
  web2@shop  enforce → observe
Lasts while a worker is left that knows it; --keep keeps it over restarts.
"""

DRAIN: Final = """\
$ celery -A shop fair drain web2@shop --wait
work
  web2@shop  in service → draining (3 running)
For this process: the next of its name takes work.
  web2@shop  draining (3 running)
  web2@shop  draining (1 running)
  web2@shop  drained
"""

EXPORTER: Final = """\
$ celery -A shop fair exporter --port 9541 &
celery-fair: metrics on http://0.0.0.0:9541/metrics
$ curl -s localhost:9541/metrics | grep ^celery_fair_slot_seconds
celery_fair_slot_seconds_total{kind="interactive",worker="web1@shop"} 0.127
celery_fair_slot_seconds_total{kind="batch",worker="web1@shop"} 30.121
"""

FLOWER: Final = """\
$ celery -A shop fair flower --port=5555
[I 261130 10:13:34 command:177] Visit me at http://127.0.0.1:5555
$ xdg-open http://127.0.0.1:5555/fair
"""

RECORD: Final = """\
$ celery -A shop fair record --seconds 3600 --to day.jsonl.gz
2 workers will be recorded for 1 h; Ctrl-C writes what there is.
day.jsonl.gz: 15 402 tasks of 2 workers in 1 h
  interactive  14 391, wait p95 183 ms, run 52 ms on the mean
  batch        1 011, wait p95 9 min, run 12 s on the mean
"""

EXAMPLES: Final = {
    "status": STATUS,
    "top": TOP,
    "explain": EXPLAIN,
    "resources": RESOURCES,
    "doctor": DOCTOR,
    "bench": BENCH,
    "simulate": SIMULATE,
    "advise": ADVISE,
    "pause": PAUSE,
    "resume": RESUME,
    "set": SET,
    "settings": SETTINGS,
    "mode": MODE,
    "drain": DRAIN,
    "record": RECORD,
    "exporter": EXPORTER,
    "flower": FLOWER,
    **JOB_EXAMPLES,
}


def epilog(command: str) -> str | None:
    """What click writes under the options of a command; the ``\\b`` keep it from filling lines."""
    example = EXAMPLES.get(command)
    if example is None:
        return None
    return "\n\n".join(
        "\b\n" + "\n".join(f"  {line}" for line in part.splitlines())
        for part in example.strip("\n").split("\n\n")
    ).replace("\b\n", "\b\nExample:\n", 1)
