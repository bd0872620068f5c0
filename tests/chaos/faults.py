"""What is done to the workers and the broker of a chaos run, and undone."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Callable

import psutil
import redis

from celery_fair.resources.store import LEASE_SECONDS
from tests.apps import chaotic
from tests.brokers.redis import RedisServer
from tests.chaos.account import Trouble
from tests.chaos.plan import STALL, Fault
from tests.chaos.site import READY_SECONDS, Site
from tests.nodes.worker import WorkerProcess

STOP_SECONDS = 60.0
PAUSE_MS = 1000
STALL_SECONDS = LEASE_SECONDS + 3.0

Step = Callable[[], bool]
"""Tried again until it is true: a worker that reconnects hears no command."""


def strike(site: Site, fault: Fault) -> list[Step]:
    """Do it; what remains to be done later, first to be tried when the fault has lasted."""
    worker = site.workers[fault.worker]
    if fault.name != "restart_broker" and not (is_up(worker) and worker not in site.stopping):
        return []
    return FAULTS[fault.name](site, worker, fault)


def is_up(worker: WorkerProcess) -> bool:
    return worker.running and worker.is_ready()


def _kill_worker(site: Site, worker: WorkerProcess, fault: Fault) -> list[Step]:
    with site.trouble("kill", worker):
        worker.kill(main_only=fault.how == "main")
    return [lambda: _start_again(site, worker)]


def _start_again(site: Site, worker: WorkerProcess) -> bool:
    if worker.members():  # the children that a killed main process has left
        with site.trouble("kill", worker):
            worker.kill()
    site.stopping.discard(worker)
    worker.spawn()
    return True


def _stop_worker(site: Site, worker: WorkerProcess, fault: Fault) -> list[Step]:
    with site.trouble("stop", worker):
        worker.terminate()
    site.stopping.add(worker)

    def start_again() -> bool:
        return not worker.running and _start_again(site, worker)

    return [start_again]


def _kill_child(site: Site, worker: WorkerProcess, fault: Fault) -> list[Step]:
    children = psutil.Process(worker.pid).children()
    if children:
        child = children[fault.at % len(children)]
        with site.trouble("child", worker, child.pid), contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    return []


def _cut(site: Site, worker: WorkerProcess, fault: Fault) -> list[Step]:
    with site.trouble("cut", worker):
        if isinstance(site.server, RedisServer):
            _cut_redis(site, worker, fault)
        else:
            _cut_rabbitmq(site, worker, fault)
    return []


def _ports(site: Site, worker: WorkerProcess) -> set[int]:
    """The local ports of the connections to the broker of the worker and its children."""
    ports = set()
    for process in [psutil.Process(worker.pid), *worker.children()]:
        with contextlib.suppress(psutil.Error):
            ports |= {
                one.laddr.port
                for one in process.net_connections("tcp")
                if one.raddr and one.raddr.port == site.server.port
            }
    return ports


def _cut_redis(site: Site, worker: WorkerProcess, fault: Fault) -> None:
    ports = _ports(site, worker)
    with redis.Redis.from_url(site.broker.url, decode_responses=True) as client:
        clients = [
            one for one in client.client_list() if int(one["addr"].rsplit(":", 1)[1]) in ports
        ]
        if fault.how == "pops":
            clients = [one for one in clients if one["cmd"] == "brpop"]
        elif fault.how == "one":
            clients = random.Random(fault.at).sample(clients, min(1, len(clients)))
        for one in clients:
            with contextlib.suppress(redis.ResponseError):  # gone with another of its own
                client.client_kill(one["addr"])


CLOSE = """
[{how} || Info <- rabbit_networking:connection_info_all([pid, peer_port]),
 Pid <- [proplists:get_value(pid, Info)],
 lists:member(proplists:get_value(peer_port, Info), {ports})].
"""


def _cut_rabbitmq(site: Site, worker: WorkerProcess, fault: Fault) -> None:
    ports = sorted(_ports(site, worker))
    if fault.how == "one":
        ports = random.Random(fault.at).sample(ports, min(1, len(ports)))
    how = "exit(Pid, kill)"
    if fault.how == "all":
        how = 'rabbit_networking:close_connection(Pid, "chaos")'
    site.server.ctl("eval", CLOSE.format(how=how, ports=ports))


def _restart_broker(site: Site, worker: WorkerProcess, fault: Fault) -> list[Step]:
    with site.trouble("broker killed" if fault.how == "kill" else "broker", None):
        if fault.how == "kill":
            site.server.kill()
        else:
            _let_replies_go(site)
            site.server.stop(timeout=STOP_SECONDS)
        site.server.start(timeout=READY_SECONDS)
    return []


def _let_replies_go(site: Site) -> None:
    """Redis may end with replies that it has not sent: what they have popped is lost to anybody."""
    if isinstance(site.server, RedisServer):
        with site.server.client() as client:
            client.client_pause(PAUSE_MS, all=True)
        time.sleep(PAUSE_MS / 4000)


def _gate(site: Site, worker: WorkerProcess, fault: Fault) -> list[Step]:
    site.ask(worker, "chaos_gate", mode=fault.how)
    return [command(site, worker, "chaos_gate")]


def _move(site: Site, worker: WorkerProcess, fault: Fault) -> list[Step]:
    site.ask(worker, "chaos_move", queue=chaotic.MOVING_QUEUE, kind=fault.how)
    return [command(site, worker, "chaos_move", queue=chaotic.MOVING_QUEUE, kind="batch")]


def _pause(site: Site, worker: WorkerProcess, fault: Fault) -> list[Step]:
    site.ask(worker, "chaos_consume", queue=fault.how, on=False)
    return [command(site, worker, "chaos_consume", queue=fault.how)]


def _resize(site: Site, worker: WorkerProcess, fault: Fault) -> list[Step]:
    slots = site.plan.slots + (2 if fault.how == "grow" else -1)
    site.ask(worker, "chaos_resize", slots=slots)
    return [command(site, worker, "chaos_resize", slots=site.plan.slots)]


def _mode(site: Site, worker: WorkerProcess, fault: Fault) -> list[Step]:
    site.ask(worker, "fair_set", setting="mode", value=fault.how)

    def enforce_again() -> bool:
        """The others remember, so that one of its name would observe after a restart too."""
        if not is_up(worker) or worker in site.stopping:
            return False
        return "ok" in (site.ask(worker, "fair_set", setting="mode", value="enforce") or {})

    return [enforce_again]


def _freeze(site: Site, worker: WorkerProcess, fault: Fault) -> list[Step]:
    """Its main process stands still, for less than a lease; prefork's children go on."""
    pid = worker.pid
    worker.send_signal(signal.SIGSTOP)

    def thaw() -> bool:
        if worker.pid == pid and worker.running:
            worker.send_signal(signal.SIGCONT)
        return True

    return [thaw]


def _stall(site: Site, worker: WorkerProcess, fault: Fault) -> list[Step]:
    """It stands still for longer than a lease, with its children or without."""
    main, at, end = worker.pid, time.time(), time.monotonic() + STALL_SECONDS
    stopped = [psutil.Process(main)]
    if fault.how == "all":
        stopped += worker.children()
    for process in stopped:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()

    def go_on() -> bool:
        if time.monotonic() < end and worker.pid == main and worker.running:
            return False
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):  # psutil tells another of that number
                process.resume()
        pid = None if fault.how == "all" else main
        site.troubles.append(Trouble(STALL, worker.hostname, at, time.time(), pid))
        return True

    return [go_on]


def _clock(site: Site, worker: WorkerProcess, fault: Fault) -> list[Step]:
    """The clock of what the workers share jumps, for all of them at once, and jumps back."""
    site.clock.write_text(fault.how)

    def jump_back() -> bool:
        site.clock.write_text("0")
        return True

    return [jump_back]


def command(site: Site, worker: WorkerProcess, name: str, **arguments: object) -> Step:
    """Have a worker do something, if it is the one that was told the contrary."""
    pid = worker.pid

    def step() -> bool:
        if worker.pid != pid or not worker.running:
            return True  # a new one, as it was
        return "ok" in (site.ask(worker, name, **arguments) or {})

    return step


FAULTS: dict[str, Callable[[Site, WorkerProcess, Fault], list[Step]]] = {
    "kill_worker": _kill_worker,
    "stop_worker": _stop_worker,
    "kill_child": _kill_child,
    "cut": _cut,
    "restart_broker": _restart_broker,
    "gate": _gate,
    "move": _move,
    "pause": _pause,
    "resize": _resize,
    "mode": _mode,
    "freeze": _freeze,
    STALL: _stall,
    "clock": _clock,
}
