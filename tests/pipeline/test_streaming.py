"""The data source as a stream, by a real Spark on a real server."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.server import Served
from txnconsole.client import Client

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

NewTopic = Callable[[int], str]
Produce = Callable[..., None]
Committed = Callable[[str], list[bytes]]


class Copy:
    """A query that copies one topic into another, exactly once."""

    def __init__(
        self,
        spark: SparkSession,
        options: dict[str, str],
        checkpoint: Path,
        new_topic: NewTopic,
    ) -> None:
        self._spark, self._options = spark, options
        self.source, self.target = new_topic(2), new_topic(2)
        self.checkpoint = checkpoint
        self.sink = f"copy-{uuid.uuid4().hex}"

    def run(self, **source_options: str) -> StreamingQuery:
        """Copy what is there, and end."""
        rows = (
            self._spark.readStream.format("txnconsole")
            .options(**self._options, topic=self.source, columns="payload,partition")
            .options(**source_options)
            .load()
        )
        query = (
            rows.writeStream.format("txnconsole")
            .options(**self._options, topic=self.target, sink=self.sink)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query


@pytest.fixture
def copy(
    spark: SparkSession, credentials: dict[str, str], tmp_path: Path, new_topic: NewTopic
) -> Copy:
    return Copy(spark, credentials, tmp_path / "checkpoint", new_topic)


def test_a_stream_copies_what_is_committed_once_and_goes_on_where_it_ended(
    copy: Copy, produce: Produce, committed: Committed
) -> None:
    produce(copy.source, [b"a", b"b"])
    produce(copy.source, [b"lost"], partition=1, commit=False)
    copy.run()
    assert committed(copy.target) == [b"a", b"b"]
    produce(copy.source, [b"c"], partition=1)
    copy.run()
    assert committed(copy.target) == [b"a", b"b", b"c"]
    copy.run()
    assert committed(copy.target) == [b"a", b"b", b"c"]


def test_a_stream_stops_below_an_open_transaction_and_takes_it_up_when_it_has_ended(
    client: Client, copy: Copy, produce: Produce, committed: Committed
) -> None:
    produce(copy.source, [b"a"])
    hanging = client.transaction(client="test")
    producer = client.producer(copy.source)
    producer.send(b"late", txn=hanging, partition=0)
    producer.flush(hanging)
    produce(copy.source, [b"behind"])
    copy.run()
    assert committed(copy.target) == [b"a"]
    hanging.commit(wait=60)
    copy.run()
    assert sorted(committed(copy.target)) == [b"a", b"behind", b"late"]


def test_a_limit_cuts_a_stream_into_batches_that_add_up(
    copy: Copy, produce: Produce, committed: Committed
) -> None:
    sent = [b"%03d" % number for number in range(100)]
    produce(copy.source, sent[:50])
    produce(copy.source, sent[50:], partition=1)
    query = copy.run(maxMessagesPerTrigger="30")
    rows = [progress.numInputRows for progress in query.recentProgress]
    assert len([count for count in rows if count]) >= 3
    assert max(rows) <= 30
    assert committed(copy.target) == sent


def test_spark_tells_tasks_the_query_and_the_batch_that_transactions_are_named_after(
    client: Client, copy: Copy, produce: Produce
) -> None:
    produce(copy.source, [b"a"])
    copy.run()
    written = list(client.transactions.list(client=f"spark:{copy.sink}"))
    properties = [dict(each.properties) for each in written]
    assert [each.pop("run") for each in properties if uuid.UUID(each["run"])]  # Its janitor's name.
    assert properties == [{"sink": copy.sink, "batch": "0"}]


def test_a_batch_that_spark_forgot_having_committed_is_not_written_again(
    client: Client, copy: Copy, produce: Produce, committed: Committed
) -> None:
    produce(copy.source, [b"a", b"b"])
    copy.run()
    for leftover in (copy.checkpoint / "commits").glob("*0*"):
        leftover.unlink()
    for leftover in (copy.checkpoint / "commits").glob(".*0*"):
        leftover.unlink()
    copy.run()
    assert committed(copy.target) == [b"a", b"b"]
    attempts = list(client.transactions.list(client=f"spark:{copy.sink}"))
    assert len(attempts) == 2
    assert not [each for each in attempts if each.status == "OPEN"]


def test_a_deleted_checkpoint_is_refused_and_leaves_nothing_open(
    client: Client, copy: Copy, produce: Produce, committed: Committed
) -> None:
    produce(copy.source, [b"a"])
    copy.run()
    shutil.rmtree(copy.checkpoint)
    produce(copy.source, [b"b"])
    with pytest.raises(StreamingQueryException, match="ProducerFenced"):
        copy.run()
    assert committed(copy.target) == [b"a"]
    assert not list(client.transactions.list(client=f"spark:{copy.sink}", status="OPEN"))


def test_a_checkpoint_restored_from_an_older_copy_is_refused(
    client: Client, copy: Copy, produce: Produce, committed: Committed
) -> None:
    """Its next batch has the number of one that is decided, and would be taken for that."""
    produce(copy.source, [b"a"])
    copy.run()
    older = copy.checkpoint.with_name("older")
    shutil.copytree(copy.checkpoint, older)
    produce(copy.source, [b"b"])
    copy.run()
    shutil.rmtree(copy.checkpoint)
    older.rename(copy.checkpoint)
    produce(copy.source, [b"c"])
    with pytest.raises(StreamingQueryException, match="restored from an older copy"):
        copy.run()
    assert committed(copy.target) == [b"a", b"b"]
    assert not list(client.transactions.list(client=f"spark:{copy.sink}", status="OPEN"))


def test_a_topic_that_was_made_anew_is_not_gone_on_with(
    server: Served, client: Client, copy: Copy, produce: Produce, committed: Committed
) -> None:
    """The new one is longer than what was read of the old, which would be left out."""
    produce(copy.source, [b"a", b"b"])
    copy.run()
    with server.client("admin") as admin:
        admin.delete(f"/topics/{copy.source}").raise_for_status()
    client.create_topic(copy.source, partitions=2)
    produce(copy.source, [b"%d" % number for number in range(9)])
    with pytest.raises(StreamingQueryException, match="made anew since the query has read it"):
        copy.run()
    assert committed(copy.target) == [b"a", b"b"]


def test_a_topic_that_was_cut_below_what_was_read_is_not_gone_on_with(
    server: Served, client: Client, copy: Copy, produce: Produce, committed: Committed
) -> None:
    """It has grown since: its first messages after the cut would be left out."""
    produce(copy.source, [b"a", b"b", b"c"])
    copy.run()
    with server.client("admin") as admin:
        place = f"/topics/{copy.source}/partitions/0"
        for call in ("offline", "truncate", "online"):
            body = {"offset": 0, "reason": "test"} if call == "truncate" else {"reason": "test"}
            admin.post(f"{place}/{call}", json=body).raise_for_status()
    produce(copy.source, [b"%d" % number for number in range(9)])
    with pytest.raises(StreamingQueryException, match=r"Cut below what .* has read: .*:0 at"):
        copy.run()
    assert committed(copy.target) == [b"a", b"b", b"c"]


def test_a_stream_starts_where_it_is_told_to(
    copy: Copy, produce: Produce, committed: Committed
) -> None:
    produce(copy.source, [b"a", b"b", b"c"])
    copy.run(startingOffsets='{"0": 2, "1": 0}')
    assert committed(copy.target) == [b"c"]


@pytest.mark.parametrize("limit", ["0", "some"])
def test_a_wrong_option_of_a_stream_is_told_before_it_starts(copy: Copy, limit: str) -> None:
    with pytest.raises(PySparkException, match="maxMessagesPerTrigger is a whole number"):
        copy.run(maxMessagesPerTrigger=limit)


def test_a_stream_without_a_sink_name_is_refused(
    spark: SparkSession, credentials: dict[str, str], copy: Copy
) -> None:
    copy.sink = ""
    rows = spark.readStream.format("rate").load().selectExpr("cast(value as string) payload")
    query = (
        rows.writeStream.format("txnconsole")
        .options(**credentials, topic=copy.target)
        .option("checkpointLocation", str(copy.checkpoint))
        .trigger(availableNow=True)
    )
    with pytest.raises(StreamingQueryException, match="needs option sink"):
        query.start().awaitTermination()
