"""``manage.py reconcile_engine``."""

from __future__ import annotations

import json

import pytest
from django.core.management import CommandError, call_command

from engine import Engine
from engine.model.errors import CoordinatorUnavailable
from engine.model.txn_status import TxnStatus
from tests.engine.support import (
    P0,
    batch,
    commit,
    coordinator_sql,
    fetched,
    make_topic,
    open_txn,
    unreachable,
)
from tests.support.kept_pool import close_idle
from txnconsole.audit.models import AuditEntry
from txnconsole.enginedb import wiring

pytestmark = pytest.mark.django_db


def forget_the_newest(engine: Engine) -> None:
    """As in an older copy of the coordinators' database."""
    coordinator_sql(engine, "DELETE FROM coordinator.txn_partition")
    coordinator_sql(engine, "DELETE FROM coordinator.transaction_log")
    coordinator_sql(engine, "DELETE FROM coordinator.transaction")
    coordinator_sql(engine, "UPDATE coordinator.coordinator SET next_sequence = 0")


def test_migrating_refuses_coordinators_that_are_older_than_a_broker_until_they_are_reconciled(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    make_topic(engine)
    txns = [open_txn(engine), open_txn(engine)]
    for txn in txns:
        engine.produce(P0, batch(str(txn)), txn_id=txn)
        commit(engine, txn)
    call_command("migrate_engine")
    forget_the_newest(engine)
    with pytest.raises(CommandError, match=r"manage\.py reconcile_engine"):
        call_command("migrate_engine")
    call_command("reconcile_engine")
    assert "lost 2 are committed and 0 aborted" in capsys.readouterr().out
    call_command("migrate_engine")
    assert [engine.coordinator.get(txn).status for txn in txns] == [TxnStatus.COMMITTED] * 2
    new = open_txn(engine)
    engine.produce(P0, batch("new"), txn_id=new)
    commit(engine, new)
    assert fetched(engine) == [*map(str, txns), "new"]
    entry = AuditEntry.objects.get(action="coordinator.reconcile")
    assert (entry.who, json.loads(entry.after)["committed"]) == ("manage.py", 2)


def test_a_process_that_is_refused_reconciles_and_records_it(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    forget_the_newest(engine)
    coordinator_sql(engine, "DELETE FROM coordinator.compared")
    wiring.close()
    close_idle()
    with pytest.raises(CoordinatorUnavailable):
        wiring.engine().coordinator.stats()
    call_command("reconcile_engine")
    assert AuditEntry.objects.get(action="coordinator.reconcile").result == "done"
    assert wiring.engine().coordinator.get(txn).status is TxnStatus.ABORTED


@pytest.mark.usefixtures("owning_nothing")
def test_a_login_that_owns_nothing_is_told_whose_address_is_wanted(engine: Engine) -> None:
    make_topic(engine)
    with pytest.raises(CommandError, match="addresses of the databases' owner"):
        call_command("reconcile_engine")


def test_nothing_is_taken_over_while_a_broker_cannot_be_asked(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    commit(engine, txn)
    forget_the_newest(engine)
    away = engine.log.locate(P0).database.name
    with unreachable(engine, away), pytest.raises(CommandError, match="PartitionUnavailable"):
        call_command("reconcile_engine")
    assert engine.coordinator.stats()[0].low_water_mark == -1
