"""A partition's pages on the real engine: what they say, to whom, and at what cost."""

from __future__ import annotations

import html
import re

import pytest
from django.test import Client

from engine import Engine
from engine.inspect import rehearsal
from engine.model.errors import SegmentUnreadable
from engine.model.message import NewMessage
from engine.model.partition import PartitionState
from engine.model.subscription import SubscriptionSettings
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_status import TxnAction
from tests.console.conftest import TOPIC, Orders, begin, finish, produce, words
from tests.engine.support import sql, unreachable
from txnconsole.audit.models import AuditEntry
from txnconsole.console.views import aborted_ranges

HERE = f"/topics/{TOPIC}/partitions/0"
REASON = "the disk of this broker is being replaced"


def test_a_dead_letter_leads_to_the_message_that_it_was(engine: Engine, viewer: Client) -> None:
    engine.topics.create(TOPIC, TopicSettings())
    told = {"REAL_TOPIC": "a/b/paid:3", "REAL_SUBSCRIPTION": "pay", "ORIGIN_MESSAGE_ID": "8:1:3:0"}
    engine.produce(PartitionName(TOPIC, 0), [NewMessage(payload=b"x", properties=told)])
    text = viewer.get(f"{HERE}/log/entries/0").content.decode()
    question = "partition=a%2Fb%2Fpaid%3A3&amp;message=8%3A1%3A3%3A0&amp;subscription=pay"
    assert f'href="/explain?{question}">8:1:3:0</a>' in text
    produce(engine, PartitionName(TOPIC, 0), "no letter")
    assert "Dead letter" not in viewer.get(f"{HERE}/log/entries/1").content.decode()


def test_the_stack_tells_what_each_end_would_free(
    orders: Orders, engine: Engine, viewer: Client
) -> None:
    second = begin(engine)
    produce(engine, orders.partition, "behind", txn_id=second)
    produce(engine, orders.partition, "tail")
    text = words(viewer, HERE)
    assert f"Transaction {orders.open} holds the stable position at 4" in text
    first, *_ = re.findall(rf"1 {orders.open} Open alice.*?(?= 2 {second})", text)
    # Its two messages and the late one, up to where the second begins.
    assert " 5 2 " in first
    assert " 7 3 " in first
    assert re.search(rf"2 {second} Open alice 8 1 .* 9 5 ", text)


def test_it_tells_which_segments_stand_in_files(engine: Engine, viewer: Client) -> None:
    topic = TopicName("public", "default", "kept")
    partition = PartitionName(topic, 0)
    engine.topics.create(topic, TopicSettings(segment_max_messages=2))
    for number in range(9):
        produce(engine, partition, str(number))
    address = f"/topics/{topic}/partitions/0"
    assert "Segments 5, none offloaded" in words(viewer, address)
    sql(
        engine.log.locate(partition).database,
        """
        INSERT INTO broker.offloaded_segment
        SELECT partition_id, ledger_id, gen_random_uuid(), 2, 100, 90, ''
        FROM broker.segment WHERE sealed_at IS NOT NULL AND first_offset <> 4
        """,
    )
    said = "Segments 5; 3 offloaded, offsets 0 to 3, 6 to 7"
    assert said in words(viewer, address)


def test_a_viewer_is_told_which_permission_an_operation_needs(
    orders: Orders, viewer: Client
) -> None:
    text = words(viewer, HERE)
    assert "Take offline… needs partition.operate" in text
    assert viewer.get(f"{HERE}/operate/offline").status_code == 403
    assert viewer.post(f"{HERE}/operate/offline", {"reason": REASON}).status_code == 403


def test_an_operation_needs_a_reason_and_is_recorded(
    orders: Orders, engine: Engine, operator: Client
) -> None:
    assert operator.post(f"{HERE}/operate/offline", {"reason": "x"}).status_code == 422
    assert engine.log.status(orders.partition).state is PartitionState.ONLINE
    answer = operator.post(f"{HERE}/operate/offline", {"reason": REASON})
    assert answer.status_code == 200
    assert answer["HX-Trigger"] == "changed"
    assert engine.log.status(orders.partition).state is PartitionState.OFFLINE
    entry = AuditEntry.objects.order_by("-sequence")[0]
    assert (entry.action, entry.reason, entry.who) == ("partition.offline", REASON, "a-operator")
    for page in (HERE, f"{HERE}/log/blocker"):
        text = words(operator, page)
        assert f"The partition is offline: {REASON} It serves nothing" in text
        assert "Readers of committed messages may read" not in text
    answer = operator.post(f"{HERE}/operate/online", {"reason": REASON})
    assert answer.status_code == 200
    assert engine.log.status(orders.partition).state is PartitionState.ONLINE


def test_a_truncation_that_is_refused_keeps_the_form_and_says_why(
    orders: Orders, operator: Client
) -> None:
    body = {"reason": REASON, "offset": "3"}
    answer = operator.post(f"{HERE}/operate/truncate", body, headers={"HX-Request": "true"})
    assert answer.status_code == 409
    text = answer.content.decode()
    assert "is online; take it offline first" in text
    assert REASON in text
    assert AuditEntry.objects.order_by("-sequence")[0].result == "InvalidPartitionState"
    assert operator.post(f"{HERE}/operate/truncate", {"reason": REASON}).status_code == 422


def test_truncating_says_what_was_dropped(orders: Orders, engine: Engine, operator: Client) -> None:
    finish(engine, orders.open, TxnAction.ABORT)
    assert "take it offline first" in words(operator, f"{HERE}/operate/truncate")
    operator.post(f"{HERE}/operate/offline", {"reason": REASON})
    assert "take it offline first" not in words(operator, f"{HERE}/operate/truncate")
    answer = operator.post(f"{HERE}/operate/truncate", {"reason": REASON, "offset": "7"})
    assert answer.status_code == 200, answer.content
    assert "goes on at offset 7" in answer.content.decode()


@pytest.mark.parametrize("name", ["snapshot", "recover"])
def test_snapshot_and_recovery_ask_first_and_tell_the_outcome(
    orders: Orders, operator: Client, name: str
) -> None:
    form = operator.get(f"{HERE}/operate/{name}", headers={"HX-Request": "true"})
    assert "<html" not in form.content.decode()
    assert operator.post(f"{HERE}/operate/{name}", {"reason": REASON}).status_code == 200
    assert AuditEntry.objects.order_by("-sequence")[0].action == f"partition.{name}"


def test_who_is_to_recover_a_partition_is_told_how_long_that_takes(
    orders: Orders, engine: Engine, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "That takes about 10 ms, by what is usual." in words(operator, f"{HERE}/operate/recover")
    monkeypatch.setattr(rehearsal, "_COUNTED", 1)
    assert "That takes at least 10 ms" in words(operator, f"{HERE}/operate/recover")
    assert "That takes more than 10 ms" in words(operator, f"{HERE}/snapshots?rehearse=1")
    engine.partitions.recover(orders.partition)
    assert "by 1 measurement." in words(operator, f"{HERE}/operate/recover")


def test_an_operation_that_is_none_is_404(orders: Orders, operator: Client) -> None:
    assert operator.get(f"{HERE}/operate/destroy").status_code == 404


def test_a_sidecar_partition_shows_its_queue_in_the_order_of_commits(
    engine: Engine, viewer: Client
) -> None:
    name = TopicName("public", "default", "aside")
    engine.topics.create(name, TopicSettings(buffer=BufferKind.SIDECAR))
    partition = PartitionName(name, 0)
    undecided, committing = begin(engine), begin(engine)
    produce(engine, partition, "a", txn_id=undecided)
    produce(engine, partition, "b", "c", txn_id=committing)
    engine.coordinator.end(committing, TxnAction.COMMIT)
    text = words(viewer, f"/topics/{name}/partitions/0")
    assert "Commit-order queue" in text
    assert text.index(f"{committing} Committing") < text.index(f"{undecided} Open")
    assert "sidecar-buffered already" in words(viewer, f"/topics/{name}/partitions/0/models")


def test_the_strip_of_the_aborted_index_ends_where_the_list_does(
    engine: Engine, orders: Orders, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is beyond the page's rows is not drawn, and is not to look like nothing aborted."""
    another = begin(engine)
    produce(engine, orders.partition, "aborted too", txn_id=another)
    finish(engine, another, TxnAction.ABORT)
    whole = viewer.get(f"{HERE}/aborted").content.decode()
    assert "2 aborted ranges between offsets 0 and 9;" in whole
    monkeypatch.setattr(aborted_ranges, "PAGE_ROWS", 1)
    first = viewer.get(f"{HERE}/aborted").content.decode()
    assert "1 aborted range between offsets 3 and 4;" in first


def test_the_aborted_index_and_a_fetch_agree(orders: Orders, viewer: Client) -> None:
    text = words(viewer, f"{HERE}/aborted?start=0&end=7")
    assert f"{orders.aborted} 3 4 2 5" in text
    assert "2 messages returned, stable position 4 , the next fetch goes on at 5" in text
    assert "5 Message 3:2 no Held back: its transaction is undecided" in text
    assert f"{orders.aborted} 3 4 5 tells the client ; stops here" in text
    one = words(viewer, f"{HERE}/aborted?start=1&end=1")
    assert "1 message returned, stable position 4 , the next fetch goes on at 2" in one


def test_verifying_the_index_names_a_row_that_lies(
    orders: Orders, engine: Engine, viewer: Client
) -> None:
    assert "Index and log agree" in words(viewer, f"{HERE}/aborted?verify=0")
    sql(
        engine.log.locate(orders.partition).database,
        "UPDATE broker.txn_index SET first_offset = first_offset - 1 WHERE aborted",
    )
    text = words(viewer, f"{HERE}/aborted?verify=0")
    assert "They differ" in text
    assert str(orders.aborted) in text


@pytest.mark.parametrize(
    ("query", "told"),
    [("start=x", "Enter a whole number"), ("start=5&end=2", "The fetch ends before it begins")],
)
def test_a_fetch_that_cannot_be_is_told_under_its_fields(
    orders: Orders, viewer: Client, query: str, told: str
) -> None:
    assert told in words(viewer, f"{HERE}/aborted?{query}")


def test_snapshots_are_listed_with_a_rehearsal_on_request(
    orders: Orders, engine: Engine, viewer: Client
) -> None:
    engine.partitions.snapshot(orders.partition)
    text = words(viewer, f"{HERE}/snapshots?rehearse=1")
    assert "That takes about 10 ms , by what is usual: no recovery of this broker" in text
    engine.partitions.recover(orders.partition)
    text = words(viewer, f"{HERE}/snapshots?rehearse=1")
    assert "It would start from the snapshot at 7 , and read 0 entries" in text
    assert "by 1 measured recovery of this broker" in text
    assert str(orders.partition) in words(viewer, "/snapshots")


def test_the_list_of_snapshots_counts_aborts_and_says_what_is_late(
    orders: Orders, engine: Engine, viewer: Client
) -> None:
    """Late is what has changed and had no snapshot for two intervals, if ever it had one."""
    database = engine.log.locate(orders.partition).database

    def row() -> str:
        found = viewer.get("/snapshots").context["rows"]
        assert [each.aborted for each in found if each.partition == orders.partition] == [1]
        text = words(viewer, "/snapshots")
        assert "Open Aborted kept" in text
        return text.partition(str(orders.partition))[2].partition("Snapshot")[0]

    sql(database, "UPDATE broker.partition_live SET snapshot_at = NULL, snapshot_position = NULL")
    sql(database, "UPDATE broker.partition SET created_at = clock_timestamp()")
    assert "never" in row()
    assert "late" not in row()
    sql(database, "UPDATE broker.partition SET created_at = created_at - interval '11 seconds'")
    assert "never, late" in row()
    engine.partitions.snapshot(orders.partition)
    assert "late" not in row()
    produce(engine, orders.partition, "more", txn_id=begin(engine))
    sql(database, "UPDATE broker.partition_live SET changes = 0")
    sql(database, "UPDATE broker.partition_live SET snapshot_at = snapshot_at - interval '11 s'")
    assert "late" not in row()
    sql(database, "UPDATE broker.partition_live SET changes = 1")
    assert re.search(r"1[1-9]\.?\d* s, late", row())


@pytest.mark.parametrize(
    ("page", "kept", "left_out"),
    [
        ("snapshots?rehearse=1", "Kept snapshots", "It would start"),
        ("aborted?start=0&end=9&verify=0", "Marker", "messages returned"),
    ],
)
def test_what_was_asked_for_once_is_not_done_again_by_every_refresh(
    orders: Orders, viewer: Client, page: str, kept: str, left_out: str
) -> None:
    text = viewer.get(f"{HERE}/{page}").content.decode()
    assert left_out in text
    found = re.search(r'data-region [^>]*hx-get="([^"]+)"', text)
    assert found is not None
    again = viewer.get(html.unescape(found[1]), headers={"HX-Request": "true"}).content.decode()
    assert kept in again
    assert left_out not in again
    assert "<html" not in again


def test_the_subscriptions_of_a_partition_are_as_it_knows_them(
    orders: Orders, viewer: Client
) -> None:
    text = words(viewer, f"{HERE}/subscriptions")
    assert f"billing Shared Waiting 0 – 4 no {orders.open} 1" in text


def test_history_has_the_ends_of_transactions(orders: Orders, viewer: Client) -> None:
    told = viewer.get(f"{HERE}/history/points").json()
    ended = [point[5] for point in told["points"] if point[5]]
    assert ended == [str(orders.committed), str(orders.aborted)]
    assert told["points"][-1][1:3] == [7, 4]
    assert told["points"][-1][4] == str(orders.open)
    assert f"Held by {orders.open}" in words(viewer, f"{HERE}/history")
    at = told["since"] - 1000
    assert "Last position none yet" in words(viewer, f"{HERE}/history?at={at}")
    for nothing in ("yesterday", "1" * 4_301):  # Python reads no longer number.
        assert viewer.get(f"{HERE}/history?at={nothing}").status_code == 400


def test_the_logs_entries_are_on_the_page_without_a_script(orders: Orders, viewer: Client) -> None:
    text = words(viewer, orders.log)
    aborted = f"3 Message k-aborted {orders.aborted} Aborted Filtered: its transaction aborted"
    assert aborted in text
    assert "Entries around the stable position" in text
    assert "Entries around offset 2 " in words(viewer, f"{orders.log}?at=2")


def test_an_empty_partition_is_at_no_position(orders: Orders, viewer: Client) -> None:
    text = words(viewer, f"/topics/{TOPIC}/partitions/1/log")
    assert "Stable position none yet Last position none yet Held back 0" in text
    assert "nothing has been produced to this partition" in text
    assert "none yet none yet empty 0 – 0 0 1 never" in words(viewer, f"/topics/{TOPIC}")


def test_from_the_first_offset_on_readers_go_on_from_the_beginning(
    orders: Orders, operator: Client, engine: Engine
) -> None:
    empty = PartitionName(TOPIC, 1)
    hanging = begin(engine)
    produce(engine, empty, "first", txn_id=hanging)
    produce(engine, empty, "second")
    at = "holds the stable position at the beginning"
    assert f"Transaction {hanging} {at}" in words(operator, f"/topics/{TOPIC}/partitions/1/log")
    participants = words(operator, f"/transactions/{hanging}")
    assert "readers go on from the beginning to 1 once it ends" in participants
    effect = "the stable position moves from the beginning to 1 ,"
    assert effect in words(operator, f"/transactions/{hanging}/abort")


def test_a_history_without_a_script_says_where_its_points_are(
    orders: Orders, viewer: Client
) -> None:
    text = words(viewer, f"{HERE}/history")
    assert "A browser that runs scripts lists them here." in text
    assert "Loading" not in text


def test_three_models_deliver_the_same_history(orders: Orders, viewer: Client) -> None:
    text = words(viewer, f"{HERE}/models")
    assert "Marker with stable position 2 1 2 1" in text
    assert "Committed order 3 0 2 1" in text
    part = words(viewer, f"{HERE}/models?start=6&end=7")
    assert f"Open where the range begins: {orders.open} since offset 5" in part
    assert "ends before it begins" in words(viewer, f"{HERE}/models?start=6&end=1", 400)
    assert "at most 200" in words(viewer, f"{HERE}/models?start=0&end=900", 400)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("message=0", "Yes: a READ_COMMITTED reader gets it now"),
        ("message=0&subscription=billing", "Already acknowledged"),
        ("message=1&subscription=billing", "Acknowledged in a transaction that is undecided"),
        ("message=3", "Nothing: an aborted message is never delivered"),
        ("message=4", "A marker, not a message"),
        ("message=5", "Its own transaction is undecided"),
        ("message=7", "Held back by another transaction"),
        ("message=7&isolation=read_uncommitted", "Yes: a READ_UNCOMMITTED reader gets it now"),
        ("message=99", "Not written yet"),
    ],
)
def test_the_explanation_names_what_is_in_the_way(
    orders: Orders, viewer: Client, query: str, told: str
) -> None:
    assert told in words(viewer, f"/explain?partition={orders.partition}&{query}")


def test_a_consumers_name_turns_no_explanation_around(engine: Engine, viewer: Client) -> None:
    engine.topics.create(TOPIC, TopicSettings())
    name = SubscriptionName(TOPIC, "billing")
    engine.subscriptions.create(name, SubscriptionSettings())
    produce(engine, PartitionName(TOPIC, 0), "in flight")
    consumer = "pod-7 \N{RIGHT-TO-LEFT OVERRIDE}gnp.exe"
    engine.receive(name, consumer, max_messages=1)
    answer = viewer.get(f"/explain?partition={TOPIC}:0&message=0&subscription=billing")
    assert f"Consumer <bdi>{consumer}</bdi> " in answer.content.decode()


def test_a_message_id_finds_its_partition_and_offers_the_abort(
    orders: Orders, engine: Engine, operator: Client
) -> None:
    entry = engine.log.browse(orders.partition, 7, 1).messages[0]
    answer = operator.get(f"/explain?partition={TOPIC}&message={entry.message_id}")
    text = answer.content.decode()
    assert f"/transactions/{orders.open}/abort" in text
    assert "times out at" in text


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (f"partition={TOPIC}&message=5", "An offset needs its partition"),
        (f"partition={TOPIC}:0&message=1:2", "is not a message id"),
        (f"partition={TOPIC}:0&message=1:2:1:0", "is in partition 1"),
        (f"partition=orders:0&message={'9' * 30}", "no log is as long"),
        ("partition=&message=5", "This field is required"),
    ],
)
def test_a_question_that_cannot_be_asked_is_told_so(
    orders: Orders, viewer: Client, query: str, told: str
) -> None:
    assert told in words(viewer, f"/explain?{query}", 400)


def test_an_explanation_of_what_does_not_exist_is_404(orders: Orders, viewer: Client) -> None:
    address = f"/explain?partition={TOPIC}:0&message=5&subscription=nobody"
    assert "has no subscription nobody" in words(viewer, address, 404)


def test_an_explanation_that_a_damaged_file_keeps_back_is_503(
    orders: Orders, engine: Engine, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise SegmentUnreadable("The file of offsets 2 to 3 is damaged.")

    monkeypatch.setattr(type(engine.inspect), "explain", fail)
    assert "is damaged" in words(viewer, f"/explain?partition={orders.partition}&message=2", 503)


def test_a_broker_that_is_away_fails_a_region_not_the_list(
    orders: Orders, engine: Engine, viewer: Client
) -> None:
    broker = engine.topics.get(TOPIC).brokers[1]
    with unreachable(engine, broker):
        text = words(viewer, "/snapshots")
        assert f"{broker} cannot be reached" in text
        assert str(orders.partition) in text
        away = viewer.get(f"/topics/{TOPIC}/partitions/1/snapshots")
        assert away.status_code == 503


def test_producers_that_name_themselves_stand_on_the_page(
    orders: Orders, engine: Engine, viewer: Client
) -> None:
    address = f"/topics/{TOPIC}/partitions/0"
    assert "None has named itself outside transactions" in viewer.get(address).content.decode()
    message = NewMessage(payload=b"x")
    engine.produce(orders.partition, [message], producer_name="tower", sequence_id=41)
    text = viewer.get(address).content.decode()
    assert re.search(r'<th scope="row">tower</th><td class="right num">41</td>', text)


def test_the_line_of_the_whole_partition_has_what_ended(orders: Orders, viewer: Client) -> None:
    text = viewer.get(orders.log).content.decode()
    assert 'data-ended="1:2 3:4a"' in text
