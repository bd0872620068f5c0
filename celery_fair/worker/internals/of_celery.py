"""Celery's worker: read in Celery 5.5.0 to 5.7.0, and billiard 4.3.2 behind its pool."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Iterator
from functools import partial
from inspect import isgenerator
from typing import Any

from billiard import get_start_method
from billiard.einfo import ExceptionInfo
from celery import signals
from celery._state import _task_stack
from celery.worker import state
from celery.worker.consumer.control import Control
from celery.worker.consumer.tasks import Tasks
from celery.worker.request import Request
from kombu.utils.encoding import safe_repr

from celery_fair.worker.internals.of_kombu import renew_default_channel

RESULT_READER = "_recv_message"
"""The generator of ``AsynPool``'s ``ResultHandler``, which stays with the loop until it has all."""
RESULT_SECONDS = 1.0
RESULT_POLL_SECONDS = 0.05
LONGEST_KEY = 255
"""Characters of a routing key, as in AMQP: to a topic exchange a publisher may send any."""


def request_of(callback: Any) -> Any:
    """The ``Request`` whose bound method ``callback`` is (``Request.execute_using_pool``)."""
    return getattr(callback, "__self__", None)


def is_request(job_owner: Any) -> bool:
    """Whether what ``request_of`` has found is a ``Request``: a pool runs other jobs too."""
    return hasattr(job_owner, "_message")


def message_of(request: Any) -> Any:
    """The kombu message behind a request, without the property look-up per task."""
    return request._message


def was_revoked(request: Any) -> bool:
    """Whether Celery has already settled this request as revoked or expired.

    ``WorkController._process_task`` swallows ``TaskRevokedError``, so the flag is all there is.
    """
    return bool(request._already_revoked)


def queue_of(request: Any) -> str | None:
    """The routing key that a request or its message came by.

    It is the queue's name, unless somebody has bound the queue otherwise.
    """
    key = (request.delivery_info or {}).get("routing_key")
    return key if key is None else str(key)[:LONGEST_KEY]


def tell_child(request: Any, **said: Any) -> None:
    """Have a running task find what is ``said`` in its ``request.delivery_info``.

    That dict is also the one in ``request_dict``, which goes to the pool's child; unlike a header
    of ours it is copied by no retry.
    """
    request.delivery_info.update(said)


def was_asked_to_end(request: Any) -> bool:
    """Whether it was revoked while it ran, or cancelled by Celery as its connection was lost."""
    return bool(request._already_revoked or request._already_cancelled)


def may_be_revoked(request: Any) -> bool:
    """Whether ``request.revoked()``, which looks at everything, could find it to be so.

    A task's own ``Request`` class may know other reasons.
    """
    return bool(
        request._already_revoked
        or request.expires
        or request.id in state.revoked
        or state.revoked_stamps
        or type(request).revoked is not Request.revoked
    )


def process_parked_with(worker: Any, process: Callable[..., None]) -> None:
    """Have ``process(process_task, request)`` called when prefork's semaphore lets a request pass.

    ``WorkController._process_task_sem`` looks ``_process_task`` up for each request; where there is
    no semaphore, that method itself was bound long ago, and nothing comes by here.
    """
    worker._process_task = partial(process, worker._process_task)


def starts_anew(worker: Any) -> bool:
    """Whether the pool's processes are fresh interpreters: ``worker_pool_start_method`` (5.7).

    billiard's own default is that too on macOS (``billiard.get_start_method``).
    """
    own = getattr(worker, "pool_start_method", "fork")
    return bool(own != "fork" or get_start_method() != "fork")


def is_acked_early(request: Any) -> bool:
    """Whether Celery acknowledges this request's message as soon as the pool has accepted it."""
    return not request.task.acks_late


def forget_request(request: Any) -> None:
    """Take a request that goes back to the broker out of Celery's books.

    ``acknowledged`` keeps a later ``revoke`` or shutdown from settling the message again.
    """
    request.acknowledged = True
    state.task_ready(request)


def remember_request(request: Any) -> None:
    """Put a request that could not go back into Celery's books again."""
    request.acknowledged = False
    state.task_reserved(request)


def drop_copy(request: Any, other: Any) -> None:
    """Acknowledge a request whose task another message runs, and touch nothing that is the task's.

    ``other`` is the one that runs, if it is here: Celery's book by id, in which ``revoke`` looks
    for what it should terminate, goes back to it.
    """
    state.task_ready(request)
    if other is not None and is_known(other):
        state.requests[request.id] = other
    request.acknowledge()


def settle_moved(request: Any) -> None:
    """Acknowledge a request whose message was published anew: nothing of its task has ended."""
    state.task_ready(request)
    request.acknowledge()


def comes_again(request: Any) -> bool:
    """Whether the broker gives a request out again whose child was lost."""
    task = request.task
    return not request.acknowledged or bool(task.acks_late and task.reject_on_worker_lost)


def fail_unrun(request: Any, error: Exception) -> None:
    """Tell everybody that a request has failed that was never run: result, chord, errbacks, hooks.

    As ``Request.on_timeout`` does it, with the task on its stack, so that errbacks inherit from it.
    May be called by any thread; raises what a backend or a hook of the task raises.
    """
    task, context = request.task, request._context
    task.request_stack.push(context)
    _task_stack.push(task)
    try:
        try:
            raise error
        except Exception:
            told = ExceptionInfo()
        task.backend.mark_as_failure(
            request.id, error, told.traceback, request=context, store_result=request.store_errors
        )
        task.on_failure(error, request.id, request.args, request.kwargs, told)
        signals.task_failure.send(
            sender=task, task_id=request.id, exception=error, args=request.args,
            kwargs=request.kwargs, traceback=error.__traceback__, einfo=told,
        )  # fmt: skip
    finally:
        _task_stack.pop()
        task.request_stack.pop()
        error.__traceback__ = None  # its frames hold the request


def settle_unrun(request: Any, error: Exception) -> None:
    """Acknowledge a request that was failed by ``fail_unrun``, as one that has failed would be."""
    task = request.task
    state.task_ready(request)
    acks = getattr(task, "acks_on_failure", None)  # since 5.7; before, one flag for both
    if acks is None:
        acks = task.acks_on_failure_or_timeout
    if task.acks_late and not acks:
        request.reject(requeue=False)
    else:
        request.acknowledge()
    request.send_event("task-failed", exception=safe_repr(error), traceback="")


def event_sender(consumer: Any) -> Callable[..., Any] | None:
    """What sends events of this worker, unless it was started without any."""
    dispatcher = getattr(consumer, "event_dispatcher", None)
    return dispatcher.send if dispatcher is not None and dispatcher.enabled else None


def has_remote_control(consumer: Any) -> bool:
    """Whether the worker takes commands by remote control."""
    return any(isinstance(step, Control) for step in consumer.steps)


def on_command(consumer: Any, wrap: Callable[..., Any]) -> None:
    """Have ``wrap(dispatch, **body)`` called for each remote-control command that is for this
    worker: a command's own function is not told whether it is for others too."""
    for step in consumer.steps:
        if isinstance(step, Control):
            node = step.box.node
            node.dispatch = partial(wrap, node.dispatch)


def scheduled_requests(timer: Any) -> list[Any]:
    """The requests that wait for their ETA: those of which the timer has an entry.

    Celery 5.7 has a book of them, which it can't be asked for all: it is a weak set, and other
    threads write in it. And its book by id loses a retry that comes before its first attempt is
    ready, as most do: the two have one id.
    """
    entries = [waiting.entry for waiting in list(timer.schedule._queue)]
    return [
        argument
        for entry in entries
        for argument in (entry.args or ())[:1]
        if isinstance(argument, Request) and not entry.canceled
    ]


def limited_requests(consumer: Any) -> list[Any]:
    """The requests that wait for their task's rate limit."""
    buckets = [bucket for bucket in list(consumer.task_buckets.values()) if bucket is not None]
    return [request for bucket in buckets for request, _ in list(bucket.contents)]


def is_flagged_revoked(request: Any) -> bool:
    """Whether the id was revoked; ``Request.revoked`` asks more, and announces what it finds."""
    return request.id in state.revoked


def eta_task_limit(app: Any) -> int | None:
    """``worker_eta_task_limit``, which Celery has since 5.6."""
    return app.conf.get("worker_eta_task_limit")


def has_selection(queues: Any) -> bool:
    """Whether somebody has said by ``-Q`` which of ``app.amqp.queues`` are to be consumed."""
    return queues._consume_from is not None


def is_qos_global(consumer: Any) -> bool:
    """Whether a prefetch count is a channel's, not each consumer's, as Celery has found out.

    Only its ``Tasks`` step knows that before 5.7.
    """
    if hasattr(consumer, "qos_global"):
        return bool(consumer.qos_global)
    return next(bool(step.qos_global(consumer)) for step in consumer.steps if type(step) is Tasks)


def is_known(request: Any) -> bool:
    """Whether Celery still counts ``request`` as reserved or active (by identity, not by id)."""
    return request in state.active_requests or request in state.reserved_requests


def is_running(pool: Any) -> bool:
    """Whether the pool takes work: false from the signal for a warm shutdown on.

    The loop of gevent and eventlet may take two seconds to notice the signal, and close the pool.
    """
    stopping = state.should_stop is not None and state.should_stop is not False
    return bool(pool._state == pool.RUN) and not stopping


def known_requests() -> list[Any]:
    """Every request in Celery's books, copied at once: other threads write in them."""
    return list(state.requests.values())


def known_request(id: str) -> Any:
    """The request of that id in Celery's books, the last to come if there are several, or None."""
    return state.requests.get(id)


def is_active(request: Any) -> bool:
    """Whether the pool has begun with a request, as Celery knows."""
    return request in state.active_requests


def count_no_more(request: Any) -> None:
    """Take a request that has ended out of Celery's books, as its own callbacks would."""
    state.task_ready(request)


def gevent_size(pool: Any) -> int:
    """The places of gevent's pool; before Celery 5.7 ``num_processes`` is those in use."""
    return int(pool._pool.size)


def newest_green_thread(pool: Any) -> Any:
    """The green thread that eventlet's pool has just spawned; it has not begun yet."""
    return next(reversed(pool._pool_map.values()))


@contextlib.contextmanager
def running_jobs_kept(pool: Any) -> Iterator[None]:
    """Have prefork remember, over a flush, what its children run.

    Celery 5.5 forgets those jobs where none is being written, and no callback comes; before 5.7 it
    takes each child for idle, and may have a job wait behind the one that runs.
    """
    processes: Any = getattr(pool, "_pool", None)
    if not hasattr(processes, "_busy_workers"):
        yield
        return
    running = {
        number: job for number, job in processes._cache.items() if job._accepted and not job.ready()
    }
    busy = set(processes._busy_workers)
    yield
    running = {number: job for number, job in running.items() if not job.ready()}
    processes._cache.update(running)
    children = [job._write_to for job in running.values() if job._write_to is not None]
    still_busy = {child.inqW_fd for child in children if child._is_alive()}
    processes._busy_workers.update(busy & still_busy)


def end_timer(entry: Any) -> None:
    """End what ``timer.call_repeatedly`` has begun, on every pool.

    The timers of gevent and eventlet return the greenlet of the first call, which is long over:
    only its ``entry`` ends the repetition, after the call that is due.
    """
    getattr(entry, "entry", entry).cancel()
    entry.cancel()


def finish_results(hub: Any) -> None:
    """Read to its end what a pool child is in the midst of sending, before ``Hub.reset``.

    A result over 16 kB, such as any failure with its traceback, comes in two writes. ``reset``
    forgets the reader that has had the first, and the next takes the rest for a new result: the
    worker ends with "Unrecoverable error: UnpicklingError", as plain Celery's does, or that child's
    results are never read again.
    """
    deadline = time.monotonic() + RESULT_SECONDS
    for reader, _ in list(hub.readers.values()):
        if getattr(reader, "__name__", "") == RESULT_READER:
            # It ends with StopIteration, or with an error of its own: the child may be gone, and
            # what it has told meets the lost connection.
            with contextlib.suppress(Exception):
                while time.monotonic() < deadline:
                    next(reader)
                    time.sleep(0.001)


def is_stopping_cold() -> bool:
    """Whether the worker was told to end what runs."""
    return state.should_terminate is not None and state.should_terminate is not False


def hear_what_has_begun(pool: Any, hub: Any) -> None:
    """Read what prefork's children tell of the tasks that they were given, before a flush.

    ``flush`` forgets what no child has accepted as far as has been read, and a worker that stops
    reads no more of it. A task that has just begun would run a second time, since its message goes
    back to the broker, and its child would wait for half a minute for its result to be read
    (billiard's ``Worker._ensure_messages_consumed``), the worker for its child.
    """
    processes: Any = getattr(pool, "_pool", None)
    if hub is None or not hasattr(processes, "_busy_workers"):
        return
    read = processes._result_handler.handle_event
    deadline = time.monotonic() + RESULT_SECONDS
    while (children := _given_a_task(processes)) and time.monotonic() < deadline:
        told = select.poll()
        for child in children:
            _turn(hub.writers.get(child.inqW_fd))  # a task of over 64 kB takes several
            told.register(child.outqR_fd, select.POLLIN)
        for number, _ in told.poll(RESULT_POLL_SECONDS * 1000):
            _turn(hub.readers.get(number) or (read, (number,)))


def _given_a_task(processes: Any) -> list[Any]:
    """The children to which a task was written, of which they have told nothing yet."""
    children = [job._write_to for job in processes._cache.values() if not job._accepted]
    return [child for child in children if child is not None and child._is_alive()]


def _turn(watched: tuple[Any, tuple[Any, ...]] | None) -> None:
    """Do what kombu's loop would do for a descriptor; what fails there is dropped by a flush."""
    if watched is not None:
        callback, args = watched
        with contextlib.suppress(Exception):
            if isgenerator(callback):
                next(callback)
            else:
                callback(*args)


def consume_as_celery(consumer: Any) -> None:
    """Have Celery's own step make ``task_consumer`` and ``qos`` anew, on a channel without gates.

    What it does at each connection; its consumer is declared, and not yet consumed.
    """
    renew_default_channel(consumer.connection)
    next(step for step in consumer.steps if type(step) is Tasks).start(consumer)


def keep_prefetch(consumer: Any) -> None:
    """Keep Celery from lowering and restoring a prefetch count after a reconnect: lanes have none.

    ``Consumer._restore_prefetch_count_after_connection_restart`` does nothing with the flag set, so
    that Celery's own consumer, should it be made after all, must be given what it would have.
    """
    if not consumer._maximum_prefetch_restored:
        consumer.initial_prefetch_count = consumer.max_prefetch_count
    consumer._maximum_prefetch_restored = True
