"""The invariants as the console shows them."""

from __future__ import annotations

from django.test import Client

from engine import Engine
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_status import TxnAction
from tests.console.conftest import Orders, begin, finish, produce, words
from tests.console.questions import Questions
from tests.engine.support import sql
from txnconsole.console.views.invariants import PROMISES


def test_an_operator_runs_a_step_and_everyone_sees_what_holds(
    orders: Orders, viewer: Client, operator: Client, questions: Questions
) -> None:
    assert "Nothing has been checked yet" in words(viewer, "/invariants")
    assert viewer.post("/invariants/check").status_code == 403
    assert operator.post("/invariants/check")["Location"] == "/invariants"
    text = words(viewer, "/invariants")
    assert f"Offsets follow one another without a gap {orders.partition} holds" in text
    assert "Broken 0" in text
    with questions.at_most(12):
        viewer.get("/invariants")
    assert "Nothing is broken" in words(viewer, "/invariants?broken=1")


def test_a_counter_example_stands_under_its_check_with_links(
    orders: Orders, engine: Engine, viewer: Client
) -> None:
    sql(
        engine.log.locate(orders.partition).database,
        "UPDATE broker.txn_index SET first_offset = first_offset - 1 WHERE aborted",
    )
    engine.inspect.check_invariants()
    text = words(viewer, "/invariants?broken=1")
    assert "The aborted-transaction index says what the markers say" in text
    assert f"txn id {orders.aborted}" in text
    assert f'href="/transactions/{orders.aborted}"' in (
        viewer.get("/invariants?broken=1").content.decode()
    )


def test_each_check_says_in_words_what_must_hold(orders: Orders, engine: Engine) -> None:
    sidecar = TopicName("public", "default", "invoices")
    engine.topics.create(sidecar, TopicSettings(buffer=BufferKind.SIDECAR))
    txn_id = begin(engine)
    produce(engine, PartitionName(sidecar, 0), "held", txn_id=txn_id)
    finish(engine, txn_id, TxnAction.COMMIT)
    engine.inspect.check_invariants()
    checks = engine.inspect.invariant_state(limit=500).page.items
    assert {check.name for check in checks} <= PROMISES.keys()
    assert "sidecar_snapshot_and_log" in {check.name for check in checks}


def test_a_cursor_that_is_none_is_400(engine: Engine, viewer: Client) -> None:
    assert viewer.get("/invariants?cursor=x").status_code == 400
