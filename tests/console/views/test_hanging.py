"""What hangs, with its evidence, and the remedy that fits it."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from django.test import Client

from engine import Engine
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus
from tests.console.conftest import Orders, begin, produce
from tests.engine.support import coordinator_sql, overdue, sql
from txnconsole.audit.models import AuditEntry

REASON = "found by the cross-check"


@pytest.fixture
def orphan(orders: Orders, engine: Engine) -> TxnID:
    """A transaction that is open in a partition and that no coordinator knows."""
    txn_id = begin(engine)
    produce(engine, orders.partition, "lost", txn_id=txn_id)
    for table in ("txn_partition", "transaction_log", "transaction"):
        coordinator_sql(
            engine,
            f"DELETE FROM coordinator.{table} WHERE (tc_id, sequence) = (%s, %s)",  # noqa: S608
            txn_id.tc_id,
            txn_id.sequence,
        )
    return txn_id


def test_nothing_hangs_in_a_healthy_engine(orders: Orders, viewer: Client) -> None:
    text = viewer.get("/transactions/hanging").content.decode()
    assert "Nothing hangs" in text


def test_an_overdue_transaction_is_found_with_its_remedy(
    orders: Orders, operator: Client, viewer: Client, engine: Engine
) -> None:
    coordinator_sql(
        engine,
        "UPDATE coordinator.transaction SET deadline = clock_timestamp() - interval '1 minute'"
        " WHERE status = 'OPEN'",
    )
    text = operator.get("/transactions/hanging").content.decode()
    assert "Overdue" in text
    assert f"/transactions/{orders.open}/abort" in text
    refused = viewer.get("/transactions/hanging").content.decode()
    assert f"/transactions/{orders.open}/abort" not in refused
    assert 'needs <span class="mono">transaction.abort_any</span>' in refused


def test_an_orphan_is_aborted_where_it_is_open(
    orphan: TxnID, orders: Orders, operator: Client, viewer: Client, engine: Engine
) -> None:
    text = operator.get("/transactions/hanging").content.decode()
    assert "Orphan" in text
    assert "its coordinator does not know it" in text
    address = f"/transactions/{orphan}/force-abort?partition={orders.partition}"
    assert address in unquote(text)
    assert viewer.get(address).status_code == 403
    assert "is discarded (1 message)" in operator.get(address).content.decode()
    assert operator.post(address, {"reason": "x"}).status_code == 422
    assert operator.post(address, {"reason": REASON}).status_code == 200
    entry = AuditEntry.objects.filter(action="partition.force_abort").get()
    assert (entry.reason, entry.result) == (REASON, "done")
    assert engine.log.span(orders.partition, orphan) is None


def test_a_known_transaction_is_never_force_aborted(
    orders: Orders, operator: Client, engine: Engine
) -> None:
    address = f"/transactions/{orders.open}/force-abort?partition={orders.partition}"
    answer = operator.post(address, {"reason": REASON})
    assert answer.status_code == 409
    assert "abort it with its coordinator" in answer.content.decode()
    assert engine.coordinator.get(orders.open).status is TxnStatus.OPEN


def test_a_missed_commit_is_replayed_and_nothing_else(
    orders: Orders, operator: Client, engine: Engine
) -> None:
    txn_id = begin(engine)
    produce(engine, orders.partition, "decided", txn_id=txn_id)
    database = engine.log.locate(orders.partition).database
    held = sql(database, "SELECT * FROM broker.ongoing_txn WHERE sequence = %s", txn_id.sequence)
    assert held
    coordinator_sql(
        engine,
        "UPDATE coordinator.transaction SET status = 'COMMITTING', decided_at = clock_timestamp(),"
        " next_attempt_at = clock_timestamp() + interval '1 hour' WHERE sequence = %s",
        txn_id.sequence,
    )
    coordinator_sql(
        engine,
        "UPDATE coordinator.txn_partition SET state = 'committed' WHERE sequence = %s",
        txn_id.sequence,
    )
    text = operator.get("/transactions/hanging").content.decode()
    assert "Missed commit" in text
    assert "Replay the decision…" in text
    address = f"/transactions/{txn_id}/retry"
    assert "to commit, is carried out" in operator.get(address).content.decode()
    done = operator.post(address, {"reason": REASON})
    assert f"Carried out again in {orders.partition}" in done.content.decode()
    assert engine.log.span(orders.partition, txn_id) is None


def test_there_is_nothing_to_mend_in_a_healthy_transaction(
    orders: Orders, operator: Client
) -> None:
    answer = operator.post(f"/transactions/{orders.open}/retry", {"reason": REASON})
    assert answer.status_code == 409
    assert "as they should be" in answer.content.decode()


def test_late_ones_are_shown_when_asked_for(orders: Orders, viewer: Client, engine: Engine) -> None:
    coordinator_sql(
        engine,
        "UPDATE coordinator.transaction SET opened_at = opened_at - interval '2 minutes',"
        " deadline = deadline + interval '1 hour' WHERE status = 'OPEN'",
    )
    assert "Nothing hangs" in viewer.get("/transactions/hanging").content.decode()
    assert "Late" in viewer.get("/transactions/hanging?late=1").content.decode()
    assert viewer.get("/transactions/hanging?cursor=x").status_code == 400
    overdue(engine, orders.open)
