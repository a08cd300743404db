"""Orphans: what is still open on a broker at or below a low water mark (semantics §4, §6).

The mark tells that such a transaction has ended, and not how. Its coordinator does, for ever: what
it has committed is committed here too, for example in a broker's database that was restored from an
older copy; everything else is aborted. So a decision is never reversed (reference/kafka.md §8;
docs/decisions/0064). What the same id has ended here before stays as it is: its late entries alone
are hidden.

The coordinator is asked between two SQL transactions of the broker, and a mark passes when nothing
is left below it. A crash in between leaves the mark where it was, and the next end there goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import structlog

from engine.buffer.ending import PartitionEnds, end_if_online, end_txns_on
from engine.coordinator import due
from engine.coordinator.archive import find_all
from engine.log.rows import txn_of
from engine.model.errors import EngineError
from engine.model.transaction import EndCommand
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, action_of
from engine.postgres.database import Database
from engine.postgres.session import Row
from engine.subscription import ending

logger = structlog.get_logger(__name__)

#: Transactions that are ended in one SQL transaction: appends, or acknowledgements, wait for it.
_TOGETHER = 1000


class Orphans:
    """Lets low water marks pass over what they had to stay below."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pass_over(
        self,
        broker: Database,
        partitions: Collection[tuple[int, int]],
        subscriptions: Collection[tuple[int, str]],
        low_water_marks: Mapping[int, int],
    ) -> None:
        """End all orphans of some partitions and subscriptions of a broker, each given with its
        topic's id, and raise the marks. What fails is the next end's there."""
        try:
            for topic_id, number in sorted(partitions):
                self._in_partition(broker, topic_id, number, low_water_marks)
            for topic_id, name in sorted(subscriptions):
                self._of_subscription(broker, topic_id, name, low_water_marks)
        except EngineError as error:
            logger.warning(
                "orphans left", broker=broker.name, code=error.code, reason=error.message
            )

    def _in_partition(
        self, broker: Database, topic_id: int, number: int, marks: Mapping[int, int]
    ) -> None:
        place = {"topic_id": topic_id, "number": number}
        for orphans in _pages(broker, "orphans_of_partition", place, marks):
            actions = {txn_id: each.action for txn_id, each in self._commands(orphans).items()}
            actions |= {txn_of(row): TxnAction.ABORT for row in orphans if row.ended_before}
            end = partial(end_if_online, partition_id=orphans[0].partition_id, actions=actions)
            ended = [txn_of(row) for row in broker.retrying(end)]
            _log_ended(broker, place, [(txn_id, actions[txn_id]) for txn_id in ended])
        ends = [PartitionEnds(topic_id=topic_id, number=number, commands=())]
        broker.retrying(lambda session: end_txns_on(session, ends, marks), one_statement=True)

    def _of_subscription(
        self, broker: Database, topic_id: int, name: str, marks: Mapping[int, int]
    ) -> None:
        place = {"topic_id": topic_id, "name": name}
        for orphans in _pages(broker, "orphans_of_subscription", place, marks):
            commands = list(self._commands(orphans).values())
            end = partial(ending.end_held, topic_id=topic_id, name=name, commands=commands)
            broker.retrying(end)
            _log_ended(broker, place, [(each.txn_id, each.action) for each in commands])
        broker.retrying(lambda session: ending.end_acks(session, topic_id, name, (), marks))

    def _commands(self, orphans: Iterable[Row]) -> dict[TxnID, EndCommand]:
        """What their coordinators have decided; an abort for those that these do not know."""
        txn_ids = [txn_of(row) for row in orphans]
        with self._database.session() as session:
            found = find_all(session, txn_ids)
            committed = {
                txn_id
                for txn_id, header in found.items()
                if action_of(header.status) is TxnAction.COMMIT
            }
            confirmed = due.confirmed_acks(session, *committed) if committed else {}
        return {
            txn_id: EndCommand(
                txn_id=txn_id,
                action=TxnAction.COMMIT if txn_id in committed else TxnAction.ABORT,
                confirmed=confirmed.get(txn_id, frozenset()),
            )
            for txn_id in txn_ids
        }


def _pages(
    broker: Database, statement: str, place: Mapping[str, Any], marks: Mapping[int, int]
) -> Iterator[list[Row]]:
    """The orphans of a participant, by id. Each page begins behind the one before, so that one that
    cannot be ended now is not met for ever."""
    after = -1, -1
    below = {"mark_tcs": list(marks), "marks": list(marks.values()), "limit": _TOGETHER}
    while True:
        behind = {"after_tc": after[0], "after_sequence": after[1]}
        with broker.session() as session:
            page = session.all(statement, **place, **below, **behind)
        if page:
            yield page
            after = page[-1].tc_id, page[-1].sequence
        if len(page) < _TOGETHER:
            return


def _log_ended(
    broker: Database, place: Mapping[str, Any], ended: Sequence[tuple[TxnID, TxnAction]]
) -> None:
    committed = [str(txn_id) for txn_id, action in ended if action is TxnAction.COMMIT]
    aborted = len(ended) - len(committed)
    logger.warning(
        "orphans ended", broker=broker.name, **place, aborted=aborted, committed=committed
    )
