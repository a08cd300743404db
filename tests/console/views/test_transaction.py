"""One transaction: its parts, each read when asked for, and what is told of forgotten ones."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from engine import Engine
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_status import TxnAction
from tests.console.conftest import SECRET, TOPIC, Orders, begin, finish, produce
from tests.console.support import asked
from txnconsole.refusals.models import Refusal

ESCAPED = SECRET.replace("<", "&lt;").replace(">", "&gt;")


def test_the_page_costs_few_questions(orders: Orders, viewer: Client) -> None:
    page = f"/transactions/{orders.open}"
    viewer.get(page)
    for part in ("", "/timeline", "/lineage", "/participants", "/messages"):
        with asked() as questions:
            assert viewer.get(page + part).status_code == 200
        assert questions.count <= 8, (part, questions.names)


def test_the_page_asks_each_broker_once_however_many_partitions_there_are(
    engine: Engine, viewer: Client
) -> None:
    engine.topics.create(TOPIC, TopicSettings(partitions=9))
    txn_id = begin(engine)
    for number in range(9):
        produce(engine, PartitionName(TOPIC, number), "hidden", txn_id=txn_id)
    viewer.get(f"/transactions/{txn_id}")
    with asked() as questions:
        text = viewer.get(f"/transactions/{txn_id}").content.decode()
    assert questions.count <= 10, questions.names
    assert text.count('<td class="right num">1</td>') >= 8


def test_the_page_says_from_where_it_was_opened_when_that_is_known(
    engine: Engine, viewer: Client
) -> None:
    known = engine.coordinator.open(owner="alice", client_host="2001:db8::7").txn_id
    unknown = engine.coordinator.open(owner="alice").txn_id
    says = '<span class="quiet">from <span class="mono">'
    assert f"{says}2001:db8::7<" in viewer.get(f"/transactions/{known}").content.decode()
    assert says not in viewer.get(f"/transactions/{unknown}").content.decode()


def test_a_page_of_many_partitions_stays_small_and_leads_to_all_of_them(
    engine: Engine, viewer: Client
) -> None:
    engine.topics.create(TOPIC, TopicSettings(partitions=60))
    txn_id = begin(engine)
    names = [PartitionName(TOPIC, number) for number in range(60)]
    for name in names:
        engine.coordinator.add_partitions(txn_id, [name])
    for name in names[::7]:
        produce(engine, name, *map(str, range(20)), txn_id=txn_id)
    page = f"/transactions/{txn_id}"
    parts = ("", "/participants", "/lineage", "/messages", "/conflicts")
    elements = sum(viewer.get(page + part).content.count(b"</") for part in parts)
    assert elements < 800  # Of 1,000; its chart has the rest.
    seen: list[str] = []
    address: str | None = page
    while address:
        text = viewer.get(address).content.decode()
        seen += re.findall(r'<tr id="part-([^"]+)"', text)
        found = re.search(r'href="(\?partitions=[0-9]+)#h-parts">Next', text)
        address = page + found.group(1) if found else None
    assert seen == [str(name) for name in names]
    assert "60 taking part" in text
    assert "1–8 of 60 records" not in viewer.get(f"{page}?records=8").content.decode()
    assert "49–56 of 60 participants" in viewer.get(f"{page}/participants?from=50").content.decode()
    third = viewer.get(f"{page}/messages?partition={TOPIC}:20").content.decode()
    assert "16 before" in third
    assert "36 more" in third


def test_what_it_holds_back_is_the_same_in_the_figures_and_beside_each_partition(
    orders: Orders, engine: Engine, viewer: Client
) -> None:
    """Another one is open behind it, so that its own end frees less than it holds back."""
    produce(engine, orders.partition, "behind", txn_id=begin(engine))
    produce(engine, orders.partition, "free")
    text = viewer.get(f"/transactions/{orders.open}").content.decode()
    assert '<dt>Holds back</dt><dd class="warn">5</dd>' in text
    assert "<b>5</b>" in text
    assert "readers go on from 4 to 7 once it ends" in text


def test_the_page_names_whom_it_conflicted_with(orders: Orders, viewer: Client) -> None:
    page = f"/transactions/{orders.open}"
    assert "Nobody refused it" in viewer.get(f"{page}/conflicts").content.decode()
    for holder, refused in ((orders.open, orders.aborted), (orders.committed, orders.open)):
        Refusal.objects.create(
            subscription=f"{TOPIC}/billing",
            partition=1,
            holder=str(holder),
            refused=str(refused),
            consumer="c-7",
            who="bob",
            first_offset=41,
            times=3,
        )
    text = viewer.get(f"{page}/conflicts").content.decode()
    assert f'It was refused for <a class="mono" href="/transactions/{orders.committed}">' in text
    assert f'It held what <a class="mono" href="/transactions/{orders.aborted}">' in text
    assert f"/subscriptions/{TOPIC}/billing?partition=1" in text
    assert f'hx-get="{page}/conflicts"' in viewer.get(page).content.decode()


def test_the_timeline_is_a_figure_and_the_same_as_a_table(orders: Orders, viewer: Client) -> None:
    address = f"/transactions/{orders.aborted}/timeline"
    figure = viewer.get(address, headers={"Accept": "application/json"}).json()
    assert figure["lanes"] == ["coordinator 3", f"{TOPIC}:0"]
    by_name = {trace["meta"]: trace for trace in figure["data"]}
    assert by_name["OPEN"]["y"] == ["coordinator 3", f"{TOPIC}:0"]
    marks = {text.partition(" after ")[0] for text in by_name["marks"]["customdata"]}
    assert marks >= {"decided", "ended", "first write", "marker"}
    assert all(length >= 0 for trace in figure["data"] for length in trace["x"])
    table = viewer.get(address).content.decode()
    for word in ("Decided", "Ended", "Registered", "First write", "Marker"):
        assert word in table


def test_lineage_links_what_was_acknowledged_and_what_was_written(
    orders: Orders, viewer: Client
) -> None:
    text = viewer.get(f"/transactions/{orders.open}/lineage").content.decode()
    assert f"/transactions/{orders.committed}" in text
    assert f"/subscriptions/{TOPIC}/billing" in text
    forward = viewer.get(f"/transactions/{orders.committed}/lineage").content.decode()
    assert f"/transactions/{orders.open}" in forward
    assert "It wrote without acknowledging anything" in forward


def test_atomicity_is_told_for_each_participant(orders: Orders, viewer: Client) -> None:
    text = viewer.get(f"/transactions/{orders.committed}/participants").content.decode()
    assert "All agree" in text
    assert str(orders.partition) in text.replace("<wbr>", "")


def test_participants_stand_in_the_order_of_their_names(engine: Engine, viewer: Client) -> None:
    engine.topics.create(TOPIC, TopicSettings(partitions=11))
    txn_id = begin(engine)
    for number in (10, 1, 2, 0):
        produce(engine, PartitionName(TOPIC, number), "hidden", txn_id=txn_id)
    text = viewer.get(f"/transactions/{txn_id}/participants").content.decode()
    assert re.findall(r"<wbr>orders:(\d+)</a>", text) == ["0", "1", "2", "10"]


@pytest.mark.parametrize(("role", "shown"), [("operator", True), ("viewer", False)])
def test_messages_show_payloads_to_those_who_may_read_them(
    orders: Orders, request: pytest.FixtureRequest, role: str, shown: bool
) -> None:
    client: Client = request.getfixturevalue(role)
    text = client.get(f"/transactions/{orders.open}/messages").content.decode()
    assert f"k-{ESCAPED}" in text
    assert (f">{ESCAPED}</td>" in text) is shown
    assert ("hidden from your role" in text) is not shown
    assert SECRET not in text


def test_messages_come_page_by_page_and_partition_by_partition(
    engine: Engine, orders: Orders, viewer: Client
) -> None:
    txn_id = begin(engine)
    other = PartitionName(TOPIC, 1)
    produce(engine, other, *(f"m{n}" for n in range(30)), txn_id=txn_id)
    produce(engine, orders.partition, "here", txn_id=txn_id)
    page = f"/transactions/{txn_id}/messages"
    assert "k-here" in viewer.get(page).content.decode()
    first = viewer.get(f"{page}?partition={other}").content.decode()
    assert ("k-m9<" in first, "k-m10<" in first) == (True, False)
    rest = viewer.get(f"{page}?partition={other}&from=10").content.decode()
    assert "k-m10<" in rest
    assert viewer.get(f"{page}?partition={TOPIC}:7").status_code == 400


def test_audit_rows_are_shown_to_those_who_may_read_them(
    orders: Orders, operator: Client, viewer: Client
) -> None:
    operator.post(f"/transactions/{orders.open}/abort", {"reason": "it hangs for hours"})
    page = f"/transactions/{orders.open}"
    assert "it hangs for hours" in operator.get(f"{page}/audit").content.decode()
    assert viewer.get(f"{page}/audit").status_code == 403
    assert "h-audit" not in viewer.get(page).content.decode()


def test_an_archived_transaction_is_finished_and_forgotten(
    orders: Orders, viewer: Client, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(engine, orders.open, TxnAction.COMMIT)
    monkeypatch.setattr(engine.archive, "_settings", engine.settings.__class__(archive_after_ms=0))
    assert engine.archive.move() > 0
    text = viewer.get(f"/transactions/{orders.committed}").content.decode()
    assert "Finished and forgotten" in text
    assert "low water mark" in text
    assert "h-lineage" not in text
    for part in ("timeline", "lineage", "participants", "messages"):
        assert viewer.get(f"/transactions/{orders.committed}/{part}").status_code == 200


@pytest.mark.parametrize(
    ("txn_id", "told"),
    [
        ("3:999", "has issued ids up to 3:2"),
        ("0:1", "has issued none yet"),
        ("900:1", "There is no coordinator 900"),
    ],
)
def test_an_id_that_was_never_issued_says_how_far_its_coordinator_is(
    orders: Orders, viewer: Client, txn_id: str, told: str
) -> None:
    answer = viewer.get(f"/transactions/{txn_id}")
    assert answer.status_code == 404
    assert told in answer.content.decode()


def test_the_dialog_tells_what_else_could_end_it(orders: Orders, operator: Client) -> None:
    text = operator.get(f"/transactions/{orders.open}/abort").content.decode()
    assert "What else could end it" in text
    assert "does the same as this abort" in text


def test_a_participant_that_was_deleted_is_told_and_can_be_left_out(
    engine: Engine, viewer: Client
) -> None:
    for name in ("kept", "gone"):
        topic = TopicName("public", "default", name)
        engine.topics.create(topic, TopicSettings(partitions=1))
    txn_id = begin(engine)
    for name in ("kept", "gone"):
        partition = PartitionName(TopicName("public", "default", name), 0)
        produce(engine, partition, "x", txn_id=txn_id)
    engine.topics.delete(TopicName("public", "default", "gone"), force=True)
    text = viewer.get(f"/transactions/{txn_id}").content.decode()
    assert '<span class="num">1</span> of its participants has been deleted.' in text
    assert 'id="part-public/default/gone:0"' in text
    assert "/topics/public/default/gone/partitions/0" not in text
    text = viewer.get(f"/transactions/{txn_id}?deleted=out").content.decode()
    assert 'id="part-public/default/gone:0"' not in text
    assert 'id="part-public/default/kept:0"' in text
    assert "Show them" in text
