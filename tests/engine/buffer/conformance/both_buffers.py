"""Where the two buffers differ, and what the tests of both ask of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine import Engine
from engine.model.topic import BufferKind
from engine.model.transaction import EndResult
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.engine.support import (
    P0,
    batch,
    broker_sql,
    end_txns,
    pass_over_orphans,
)

COMMIT, ABORT = TxnAction
T1, T2, T3, OTHER = TxnID(0, 1), TxnID(0, 2), TxnID(0, 3), TxnID(1, 2)


@dataclass(frozen=True)
class Differences:
    """Where the two buffers differ (semantics §4.1, §4.3)."""

    #: Transactions in the order in which they commit, whole; or messages as they were published.
    commit_order: bool
    #: An open transaction holds back what comes after it.
    blocks: bool
    #: READ_UNCOMMITTED readers see what is not decided, or was aborted: it is in the partition.
    undecided_in_partition: bool
    #: What aborts, and what commits beside its messages, takes offsets of the partition.
    markers_take_offsets: bool


DIFFERENCES = {
    BufferKind.MARKER: Differences(
        commit_order=False, blocks=True, undecided_in_partition=True, markers_take_offsets=True
    ),
    BufferKind.SIDECAR: Differences(
        commit_order=True, blocks=False, undecided_in_partition=False, markers_take_offsets=False
    ),
}


def write(engine: Engine, txn_id: TxnID | None, *payloads: str) -> None:
    """The broker's side of an append; the coordinator has let it through."""
    engine.log.append(P0, batch(*(payloads or ("x",))), txn_id=txn_id)


def ended(
    engine: Engine,
    *commands: tuple[TxnID, TxnAction],
    marks: dict[int, int] | None = None,
    registered: bool = True,
) -> Sequence[EndResult]:
    """EndTxnOnPartition as a coordinator sends it."""
    location = engine.log.locate(P0)
    results = end_txns(location, *commands, marks=marks, registered=registered)
    pass_over_orphans(engine, marks or {}, location)
    return results


def last_offset(engine: Engine) -> int:
    return engine.log.status(P0).last_offset


def entries(engine: Engine) -> int:
    """How many entries stand in all logs of the broker."""
    [row] = broker_sql(engine, "SELECT count(*) AS n FROM broker.entry")
    return int(row.n)


def state(engine: Engine) -> dict[str, list[object]]:
    """Everything derived, of all logs of the broker, but what only steers the next snapshot."""
    return {
        "heads": broker_sql(
            engine,
            "SELECT partition_id, next_offset, log_start_offset, ledger_id, segment_first_offset,"
            " segment_entries, segment_bytes, first_ongoing_offset, ongoing_txns, aborted_txns"
            " FROM broker.partition_live ORDER BY 1",
        ),
        "ongoing": broker_sql(
            engine,
            "SELECT partition_id, tc_id, sequence, first_offset, last_offset, messages, bytes"
            " FROM broker.ongoing_txn ORDER BY 1, 2, 3",
        ),
    }


def everything(engine: Engine) -> None:
    """Open, committed, aborted and empty transactions among plain messages."""
    for number in range(4):
        txn_id = TxnID(0, number)
        write(engine, txn_id, f"{number} a", f"{number} b")
        write(engine, None, "plain")
        write(engine, txn_id, f"{number} c")
    ended(engine, (TxnID(0, 0), COMMIT), (TxnID(0, 1), ABORT), (TxnID(0, 7), COMMIT))
