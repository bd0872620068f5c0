"""The kind of a task in the words of the engine that it calls, so that both order alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from celery_fair.current import current_kind
from celery_fair.errors import BadOption, did_you_mean
from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind


class Words(NamedTuple):
    """One field of a request, and what it says for each kind."""

    field: str
    type: type
    of: Mapping[Kind, Any]


ENGINES: Final[Mapping[str, Words]] = {
    # The lower the sooner, 0 if unsaid; heeded with --scheduling-policy priority.
    "vllm": Words("priority", int, {INTERACTIVE: 0, BATCH: 10}),
    # auto is what the project's settings say, and what holds if nothing is said.
    "openai": Words("service_tier", str, {INTERACTIVE: "auto", BATCH: "flex"}),
}


class HintsMixin:
    """What `Fair` has of this."""

    @staticmethod
    def upstream_hints(
        engine: str, *, interactive: int | str | None = None, batch: int | str | None = None
    ) -> dict[str, Any]:
        """Return what to send to an engine, ``"vllm"`` or ``"openai"``, for the kind of this code.

        That is `current_kind`: of the task that runs, the block or the request around it. As in
        ``client.chat.completions.create(…, **fair.upstream_hints("openai"))``; what an engine has
        beyond OpenAI's own fields goes by ``extra_body=fair.upstream_hints("vllm")``.
        ``interactive`` and ``batch`` are other values of the field. Raises `BadOption`.
        """
        words = ENGINES.get(engine)
        if words is None:
            hint = did_you_mean(engine, ENGINES) if isinstance(engine, str) else ""
            raise BadOption("upstream_hints(engine)", f"one of {', '.join(ENGINES)}{hint}", engine)
        kind = current_kind()
        own = batch if kind == BATCH else interactive
        if own is None:
            return {words.field: words.of[kind]}
        if not isinstance(own, words.type) or isinstance(own, bool):
            expected = f"{words.field} as {words.type.__name__}"
            raise BadOption(f"upstream_hints({kind}=)", expected, own)
        return {words.field: own}
