"""A worker's order to change its mode, as a command of the tests' own."""

from __future__ import annotations

from celery.worker.control import control_command


@control_command()
def switch_to(state, mode):
    state.consumer.call_soon(state.consumer.controller.fair.switching.to, mode)
    return {"ok": mode}
