"""The state of everything at the moment of asking, in a few figures (docs/monitoring.md)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import structlog

from engine.log.rows import partition_of, subscription_of
from engine.model.errors import EngineError
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.txn_status import TxnStatus
from engine.postgres.database import Database
from engine.postgres.failures import FAILURES
from engine.postgres.session import Row, Session

logger = structlog.get_logger(__name__)

#: A partition is late when a transaction has been ongoing there for longer than the longest timeout
#: and this (Kafka's LATE_TRANSACTION_BUFFER_MS; reference/peers.md §0.9).
LATE_AFTER_MS = 5 * 60_000
#: A database that has said nothing for so many seconds counts as one that does not answer.
PATIENCE_SECONDS = 8.0
#: How many partitions, and how many subscriptions, of one broker are listed one by one.
_LISTED = 10_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorsStanding:
    """The figures of the coordinators. Ages are in seconds, 0 when there is nothing of that kind.

    Attributes:
        live: transactions that have not ended, by coordinator and status.
        issued: transactions that were ever opened, by coordinator.
        broken: checks of invariants that have counter-examples.
    """

    live: dict[tuple[int, TxnStatus], int]
    issued: dict[int, int]
    overdue: int
    oldest_open_seconds: float
    oldest_decided_seconds: float
    broken: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStanding:
    """The figures of one partition, with the meaning that they have in :class:`BrokerStanding`."""

    partition: PartitionName
    lag_messages: int
    blocked_seconds: float
    aborted_txns: int
    snapshot_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStanding:
    """The figures of a broker, over all its partitions.

    Attributes:
        lag_messages: how many offsets readers may not pass yet, in the worst partition.
        blocked_seconds: how long a transaction has held a partition back, in the worst one.
        snapshot_seconds: how long changes have waited for a snapshot, in the worst partition.
        partitions, pending_acks_of: one by one, only when asked for.
    """

    held_back: int
    recovering: int
    offline: int
    late_partitions: int
    lag_messages: int
    blocked_seconds: float
    aborted_txns: int
    snapshot_seconds: float
    pending_acks: int
    partitions: tuple[PartitionStanding, ...] = ()
    pending_acks_of: dict[SubscriptionName, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The figures of all databases; None for a database that does not answer or cannot be read.
    Brokers by name."""

    coordinators: CoordinatorsStanding | None
    brokers: dict[str, BrokerStanding | None]


def standing(
    database: Database, brokers: tuple[Database, ...], *, max_timeout_ms: int, one_by_one: bool
) -> Standing:
    """Ask all databases in parallel, so that the answer takes no longer than the slowest of them,
    and :data:`PATIENCE_SECONDS` at most.

    Args:
        max_timeout_ms: the longest timeout that a transaction may have.
        one_by_one: also give figures of each partition and subscription.
    """
    late_ms = max_timeout_ms + LATE_AFTER_MS
    pool = ThreadPoolExecutor(len(brokers) + 1, "standing")
    coordinators = pool.submit(_figures, database, _coordinators)
    of_broker = partial(_broker, late_ms=late_ms, one_by_one=one_by_one)
    asked = {broker.name: pool.submit(_figures, broker, of_broker) for broker in brokers}
    everything: list[Future[Any]] = [coordinators, *asked.values()]
    wait(everything, timeout=PATIENCE_SECONDS)
    pool.shutdown(wait=False)  # A frozen server keeps its thread for as long as it is frozen.
    found = {name: _answered(answer) for name, answer in asked.items()}
    return Standing(coordinators=_answered(coordinators), brokers=found)


def _answered(asked: Future[T | None]) -> T | None:
    return asked.result() if asked.done() else None


def _figures(database: Database, read: Callable[[Session], T]) -> T | None:
    """What ``read`` finds in a database; None when that does not answer or is damaged."""
    try:
        with database.session() as session:
            return read(session)
    except EngineError:
        return None  # The figures tell it.
    except FAILURES:
        logger.exception("figures not read", database=database.name)
        return None


def _coordinators(session: Session) -> CoordinatorsStanding:
    rows = session.all("live_of_coordinators")
    ages = session.all("live_ages")[0]
    live = {(row.tc_id, TxnStatus(row.status)): row.count for row in rows if row.status}
    return CoordinatorsStanding(
        live=live,
        issued={row.tc_id: row.issued for row in rows},
        overdue=ages.overdue,
        oldest_open_seconds=ages.oldest_open_seconds,
        oldest_decided_seconds=ages.oldest_decided_seconds,
        broken=session.all("broken_checks")[0].broken,
    )


def _broker(session: Session, *, late_ms: int, one_by_one: bool) -> BrokerStanding:
    partitions: list[Row] = []
    subscriptions: list[Row] = []
    row = session.all("standing", late_ms=late_ms)[0]
    if one_by_one:
        partitions = session.all("standing_of_partitions", limit=_LISTED)
        subscriptions = session.all("pending_acks_by_subscription", limit=_LISTED)
    return BrokerStanding(
        held_back=row.held_back,
        recovering=row.recovering,
        offline=row.offline,
        late_partitions=row.late_partitions,
        lag_messages=row.lag_messages,
        blocked_seconds=row.blocked_seconds,
        aborted_txns=row.aborted_txns,
        snapshot_seconds=row.snapshot_seconds,
        pending_acks=row.pending_acks,
        partitions=tuple(map(_partition, partitions)),
        pending_acks_of={subscription_of(each): each.pending_acks for each in subscriptions},
    )


def _partition(row: Row) -> PartitionStanding:
    return PartitionStanding(
        partition=partition_of(row),
        lag_messages=row.lag_messages,
        blocked_seconds=row.blocked_seconds,
        aborted_txns=row.aborted_txns,
        snapshot_seconds=row.snapshot_seconds,
    )
