"""Clients on a model, step by step: the same seed makes the same history."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.checker.history import Fault, History, Look, Op, Overdue
from tests.checker.model_target import ModelTarget
from tests.checker.network import CALM, Network, Trouble
from tests.checker.workload import Client, Common, Requests, Setting, last_reads


def setting(namespace: str = "t/n") -> Setting:
    orders, output = f"{namespace}/orders", f"{namespace}/output"
    return Setting(
        partitions=[f"{orders}:0", f"{orders}:1", f"{output}:0"],
        subscriptions=(f"{orders}|work",),
        timeouts_ms=(2, 60_000),
    )


def simulate(
    seed: int,
    steps: int = 400,
    *,
    make: Callable[[Random], ModelTarget] = ModelTarget,
    clients: int = 4,
    trouble: Trouble | None = None,
    place: int = 0,
) -> History:
    """Let clients, workers and time take turns; then end everything and read it all.

    Histories of different ``place`` share no name: together they are one longer history.
    """
    rng = Random(seed)
    target = make(rng)
    target.coordinator = place
    here = setting(f"t/n{place}")

    def clock() -> int:
        target.now += rng.randint(1, 200_000)
        return target.now

    history = History(clock)
    network = Network(target, history, rng, trouble or Trouble())
    common = Common()
    running = [
        Running(Client(f"c{place}-{n}", here, common, rng).run(), f"c{place}-{n}")
        for n in range(clients)
    ]
    for _ in range(steps):
        running[rng.randrange(clients)].step(network)
        if rng.random() < 0.3:
            target.work()
        if rng.random() < 0.02:
            target.time_out()
            history.note(Fault(kind="consumers time out"))
    _settle(target, network, here)
    return history


class Running:
    """A client between two of its requests."""

    def __init__(self, requests: Requests, name: str) -> None:
        self._requests = requests
        self._name = name
        self._next: Op | None = next(requests, None)

    def step(self, network: Network) -> bool:
        """Carry out one request; False when there are no more."""
        if self._next is None:
            return False
        answer = network.send(self._name, self._next)
        try:
            self._next = self._requests.send(answer)
        except StopIteration:
            self._next = None
        return self._next is not None


def _settle(target: ModelTarget, network: Network, here: Setting) -> None:
    network.history.note(Overdue())
    target.now += 10**15
    while target.work():
        pass
    network.deliver_late()
    target.now += 10**15
    while target.work():
        pass
    target.time_out()
    quiet = Network(target, network.history, Random(0), CALM)
    for txn in target.headers:
        quiet.send("last", Look(txn=txn, final=True))
    for requests in last_reads(here):
        reader = Running(requests, "last")
        while reader.step(quiet):
            pass
