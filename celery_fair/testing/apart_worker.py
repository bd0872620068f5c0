"""``python -m celery_fair.testing.apart_worker``: the worker that `apart` starts."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

from celery import signals
from celery.app.utils import find_app

from celery_fair.app import Fair
from celery_fair.testing import work
from celery_fair.testing.apart import READY, SPEC, send
from celery_fair.testing.interrupting import Countdown, count_down
from celery_fair.testing.journal import Telling
from celery_fair.testing.lending import OF_CELERY


def main() -> None:
    spec = json.loads(os.environ[SPEC])
    app = find_app(spec["app"])
    fair = Fair.of(app)
    if fair is None:
        raise SystemExit(f"{spec['app']} has no celery-fair in it: Fair(app) installs it")
    conf = spec["conf"]
    app.conf.update(conf)
    for name in OF_CELERY:  # its settings may have filled the environment
        os.environ.pop(name, None)
    work.register(app)
    tell = functools.partial(send, os.open(spec["pipe"], os.O_WRONLY))
    fair.add_observer(Telling(tell))
    countdown = Countdown(Path(spec["countdown"]))

    def in_worker(**_: Any) -> None:
        tell(READY, {})

    def in_child(**_: Any) -> None:
        count_down(fair, countdown)

    signals.worker_ready.connect(in_worker)
    signals.worker_process_init.connect(in_child)
    # Said in so many words, or variables of the shell (APP, BROKER_URL, …) would say otherwise.
    app.worker_main(
        ["-A", spec["app"], "-b", conf["broker_url"], "--result-backend", conf["result_backend"],
         "worker", "-P", spec["pool"], "-c", str(spec["concurrency"]), "-n", spec["hostname"],
         "-l", "INFO", "--without-mingle", "--without-gossip"]
    )  # fmt: skip


if __name__ == "__main__":
    main()
