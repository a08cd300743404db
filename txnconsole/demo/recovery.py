"""Where a producer goes on after a stop or a crash, found in the log itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from txnconsole.client import Client, InvalidTxnStatus, Message

_STEP = 500


class Place(NamedTuple):
    """A flight of a pass; places compare as they are replayed."""

    pass_number: int
    position: int

    def properties(self) -> dict[str, str]:
        """How a message carries its place."""
        return {"pass": str(self.pass_number), "position": str(self.position)}

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Place:
        """The place that a message carries."""
        return cls(int(properties["pass"]), int(properties["position"]))


START = Place(1, -1)


def last_committed(
    client: Client, topic: str, partitions: Iterable[int], *, producer: str
) -> Place:
    """The last flight that a producer committed to these partitions, ``START`` when none.

    A producer sends one transaction after another, so everything up to that flight is committed
    too and nothing after it. Transactions that it left undecided later than that are aborted, which
    also settles a commit whose answer was lost: either it came first, or it is refused.
    """
    settled: dict[str, bool] = {}
    last = START
    for partition in partitions:
        for message in _newest_first(client, topic, partition):
            txn_id = message.txn_id
            if message.producer_name != producer or txn_id is None:
                continue
            if txn_id not in settled:
                settled[txn_id] = _committed(client, txn_id)
            if settled[txn_id]:
                last = max(last, Place.of(message.properties))
                break
    return last


def _committed(client: Client, txn_id: str) -> bool:
    outcome = client.transactions.outcome(txn_id)
    if outcome == "UNDECIDED":
        try:
            client.transactions.abort(txn_id, reason="left undecided by a stopped producer")
        except InvalidTxnStatus:
            outcome = client.transactions.outcome(txn_id)
    return outcome == "COMMITTED"


def _newest_first(client: Client, topic: str, partition: int) -> Iterator[Message]:
    end = client.partition(topic, partition).last_offset + 1
    while end > 0:
        start = max(0, end - _STEP)
        reader = client.reader(
            topic, partition, isolation="read_uncommitted", from_offset=start, max_messages=_STEP
        )
        messages: list[Message] = []
        while reader.next_offset < end:
            messages += reader.fetch().messages
        yield from (each for each in reversed(messages) if start <= each.offset < end)
        end = start
