"""A stream over a subscription: its place becomes final with its output."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from txnconsole.client import Client, TransactionConflict, calls
from txnconsole.pipeline.checkpoint import CheckpointUnknown, Planned
from txnconsole.pipeline.offsets import Place
from txnconsole.pipeline.sink import Attempt, Batch, Sink, abort, commit
from txnconsole.pipeline.subscription import (
    Claim,
    Subscription,
    SubscriptionUnfit,
    claims_of,
    message_id_at,
)

NewTopic = Callable[[int], str]
Produce = Callable[..., None]
Committed = Callable[[str], list[bytes]]


def test_claims_are_read_from_the_offsets_that_spark_has_written(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    made = {"by": "broker", "at": {"0": 1_764_000_000_000}}
    tagged = {"subscription": "public/default/flights/delays/eu", "made": made, "0": 12, "1": 3}
    lines = ["v1", '{"batchWatermarkMs":0}', json.dumps({"0": 7}), json.dumps(tagged), "-"]
    (tmp_path / "offsets" / "4").write_text("\n".join(lines))
    topic = "public/default/flights"
    claim = Claim(Subscription(topic, "delays/eu"), {Place(topic, 0): 12, Place(topic, 1): 3})
    assert claims_of(Planned.read(str(tmp_path), "4")) == [claim]
    (tmp_path / "offsets" / "5").write_text("v2\n{}\n")
    with pytest.raises(CheckpointUnknown, match="version"):
        claims_of(Planned.read(str(tmp_path), "5"))


def test_a_subscription_that_has_no_one_place_is_refused(
    client: Client, new_topic: NewTopic, produce: Produce
) -> None:
    topic = new_topic(1)
    produce(topic, [b"a", b"b", b"c"])
    client.create_subscription(topic, "shared", type="SHARED", initial_position="earliest")
    with pytest.raises(SubscriptionUnfit, match="takes an EXCLUSIVE or FAILOVER"):
        Subscription(topic, "shared").start(client)
    client.create_subscription(topic, "own", type="EXCLUSIVE", initial_position="earliest")
    own = Subscription(topic, "own")
    assert own.start(client) == {Place(topic, 0): 0}
    client.consumer(topic, "own", name="c").ack(message_id_at(client, Place(topic, 0), 1))
    with pytest.raises(SubscriptionUnfit, match="subscription of its own"):
        own.start(client)


def _wrote(client: Client, sink: Sink, batch: Batch, payload: bytes) -> list[str]:
    """One attempt at a batch; its transaction."""
    with Attempt(client, sink, batch) as attempt:
        attempt.write(pa.RecordBatch.from_pydict({"payload": [payload]}))
        attempt.finish()
    assert attempt.txn_id is not None
    return [attempt.txn_id]


def test_a_batch_and_what_it_has_read_are_decided_once(
    client: Client, new_topic: NewTopic, produce: Produce, committed: Committed
) -> None:
    source, target = new_topic(2), new_topic(1)
    client.create_subscription(source, "copy", type="EXCLUSIVE", initial_position="earliest")
    subscription = Subscription(source, "copy")
    sink = Sink(f"copy-{uuid.uuid4().hex}", target, 60)
    produce(source, [b"a", b"b"])

    def claims(end: int) -> list[Claim]:
        return [Claim(subscription, {Place(source, 0): end, Place(source, 1): 0})]

    first = Batch("0", "query", "run 1")
    commit(client, sink, first, _wrote(client, sink, first, b"A"), claims(2))
    assert _positions(client, source) == [1, -1]
    assert subscription.start(client) == {Place(source, 0): 2, Place(source, 1): 0}

    # The same batch once more, as after a crash of the driver: nothing is written or acknowledged.
    commit(client, sink, first, _wrote(client, sink, first, b"A"), claims(2))
    assert committed(target) == [b"A"]

    # A driver that dies between acknowledging and the decision leaves a claim, which its successor
    # ends before it makes its own; until then nobody can say where the subscription stands.
    dead = client.transaction(client=sink.client, timeout=60)
    ahead = message_id_at(client, Place(source, 0), 2)
    client.consumer(source, "copy", name=sink.client).ack_cumulative(ahead, txn=dead)
    with pytest.raises(SubscriptionUnfit, match="once its transactions have ended"):
        subscription.start(client)
    second = Batch("1", "query", "run 2")
    commit(client, sink, second, _wrote(client, sink, second, b"B"), claims(3))
    assert committed(target) == [b"A", b"B"]
    assert _positions(client, source) == [2, -1]
    assert client.transactions.get(dead.txn_id).status == "ABORTED"

    # Under another name, the next query takes over at once.
    heir = Sink(f"copy-{uuid.uuid4().hex}", target, 60)
    third = Batch("0", "another query", "run 3")
    produce(source, [b"c"])
    commit(client, heir, third, _wrote(client, heir, third, b"C"), claims(5))
    assert _positions(client, source) == [4, -1]


def test_somebody_elses_claim_keeps_a_batch_from_being_decided(
    client: Client, new_topic: NewTopic, produce: Produce, committed: Committed
) -> None:
    source, target = new_topic(1), new_topic(1)
    client.create_subscription(source, "copy", type="FAILOVER", initial_position="earliest")
    sink = Sink(f"copy-{uuid.uuid4().hex}", target, 60)
    produce(source, [b"a", b"b"])
    other = client.transaction(client="another program")
    first = message_id_at(client, Place(source, 0), 0)
    client.consumer(source, "copy", name=sink.client).ack(first, txn=other)
    batch = Batch("0", "query", "run")
    winners = _wrote(client, sink, batch, b"A")
    claims = [Claim(Subscription(source, "copy"), {Place(source, 0): 2})]
    with pytest.raises(TransactionConflict):
        commit(client, sink, batch, winners, claims)
    abort(client, sink, batch.number)
    assert committed(target) == []
    assert not list(client.transactions.list(client=sink.client, status="OPEN"))
    other.abort(wait=60)


def test_a_new_run_aborts_what_an_earlier_one_has_left_before_it_writes(
    client: Client, new_topic: NewTopic, committed: Committed
) -> None:
    target = new_topic(1)
    sink = Sink(f"janitor-{uuid.uuid4().hex}", target, 60)
    [dead] = _wrote(client, sink, Batch("7", "query", "run 1"), b"dead")
    second = Batch("7", "query", "run 2")
    attempts = [_wrote(client, sink, second, b"one"), _wrote(client, sink, second, b"two")]
    assert client.transactions.get(dead).status in ("ABORTING", "ABORTED")
    commit(client, sink, second, [txn_id for [txn_id] in attempts])
    assert sorted(committed(target)) == [b"one", b"two"]


class Follow:
    """A query that copies a topic into another by a subscription."""

    def __init__(self, spark: SparkSession, options: dict[str, str], new_topic: NewTopic) -> None:
        self._spark, self._options = spark, options
        self.source, self.target = new_topic(2), new_topic(1)

    def run(self, checkpoint: Path, sink: str, **source: str) -> None:
        rows = (
            self._spark.readStream.format("txnconsole")
            .options(**self._options, topic=self.source, columns="payload")
            .options(**({"subscription": "copy"} | source))
            .load()
        )
        query = (
            rows.writeStream.format("txnconsole")
            .options(**self._options, topic=self.target, sink=sink)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(600)
def test_output_and_acknowledgements_are_one_and_survive_a_lost_checkpoint(
    spark: SparkSession,
    client: Client,
    credentials: dict[str, str],
    tmp_path: Path,
    *,
    new_topic: NewTopic,
    produce: Produce,
    committed: Committed,
) -> None:
    follow = Follow(spark, credentials, new_topic)
    client.create_subscription(follow.source, "copy", type="EXCLUSIVE", initial_position="earliest")
    first, sink = tmp_path / "first", f"copy-{uuid.uuid4().hex}"
    produce(follow.source, [b"a", b"b"])
    produce(follow.source, [b"lost"], partition=1, commit=False)
    follow.run(first, sink)
    assert committed(follow.target) == [b"a", b"b"]
    assert _positions(client, follow.source) == [2, 1]
    listed = list(client.transactions.list(client=f"spark:{sink}"))
    ended = [client.transactions.get(each.txn_id) for each in listed]
    assert {each.status for each in ended} == {"COMMITTED"}
    [acknowledging] = [each for each in ended if each.subscriptions]
    assert not acknowledging.partitions
    assert acknowledging.properties["run"]

    # A driver that died after the decision and before Spark noted it does its batch again.
    newest = max((first / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink()
    produce(follow.source, [b"c"], partition=1)
    follow.run(first, sink)
    assert committed(follow.target) == [b"a", b"b", b"c"]

    # Without its checkpoint and under a new name, it goes on where the subscription stands.
    shutil.rmtree(first)
    produce(follow.source, [b"d"])
    follow.run(tmp_path / "second", f"copy-{uuid.uuid4().hex}")
    assert sorted(committed(follow.target)) == [b"a", b"b", b"c", b"d"]
    assert _positions(client, follow.source) == [4, 3]
    assert not list(client.transactions.list(client=f"spark:{sink}", status="OPEN"))

    with pytest.raises(StreamingQueryException, match="use a new checkpoint"):
        follow.run(tmp_path / "second", sink, subscription="another")


def _positions(client: Client, topic: str) -> list[int]:
    """What is acknowledged for good, by partition, once every end has been carried out."""
    for transaction in client.transactions.list(status="COMMITTING"):
        client.transactions.commit(transaction.txn_id, wait=60)
    found = client.perform(calls.get_subscription(topic, "copy"))
    return [cursor.mark_delete_offset for cursor in found.partitions]
