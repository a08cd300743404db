"""The data source straight from the brokers, by a real Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.server import Served
from txnconsole.client import Client
from txnconsole.pipeline.broker.databases import Databases
from txnconsole.pipeline.broker.snapshot import Snapshot
from txnconsole.pipeline.data_loss import DataLost
from txnconsole.pipeline.datasource import TopicDataSource
from txnconsole.pipeline.reader import StreamReader

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


@pytest.fixture
def options(served_databases: Databases) -> dict[str, str]:
    """No address of a server and no token: the brokers are enough."""
    return {"brokers": served_databases.options()["brokers"]}


def _payloads(frame: DataFrame) -> list[str]:
    return sorted(bytes(row.payload).decode() for row in frame.select("payload").collect())


def test_batches_of_both_orders_with_filters_under_one_snapshot(
    spark: SparkSession,
    client: Client,
    served_databases: Databases,
    new_topic: Callable[[int], str],
    produce: Callable[..., None],
) -> None:
    topic = new_topic(3)
    produce(topic, [b"a", b"b", b"c"])
    produce(topic, [b"lost"], commit=False)
    produce(topic, [b"d"], partition=1)
    hanging = client.transaction(client="test")
    producer = client.producer(topic)
    producer.send(b"open", txn=hanging, partition=0)
    producer.flush(hanging)
    produce(topic, [b"behind"])
    with Snapshot.take(served_databases) as snapshot:
        produce(topic, [b"later"], partition=1)
        read = spark.read.format("txnconsole").options(**snapshot.options(), topic=topic)
        published = read.load()
        committed = read.option("order", "committed").load()
        assert _payloads(published) == ["a", "b", "c", "d"]
        assert _payloads(published.where("partition = 0 and offset > 0 and offset < 9")) == [
            "b",
            "c",
        ]
        first = published.where("payload = cast('d' as binary)").select("publish_time").first()
        assert first is not None
        assert _payloads(published.where(sf.col("publish_time") >= first.publish_time)) == ["d"]
        assert _payloads(committed) == ["a", "b", "behind", "c", "d"]
        ordered = committed.where("partition = 0").orderBy("readable_at", "offset")
        assert [bytes(row.payload) for row in ordered.collect()] == [b"a", b"b", b"c", b"behind"]
    hanging.abort(wait=60)


def test_a_stream_over_a_pattern_of_topics_takes_up_new_ones_and_limits_its_batches(
    spark: SparkSession,
    client: Client,
    options: dict[str, str],
    tmp_path: Path,
    *,
    new_topic: Callable[[int], str],
    produce: Callable[..., None],
) -> None:
    first = new_topic(2)
    prefix = first[:-6]
    produce(first, [b"%d" % number for number in range(10)])

    def run() -> tuple[list[str], list[int]]:
        """What one run has seen, and how many messages were in each of its batches."""
        seen: list[str] = []
        sizes: list[int] = []

        def note(batch: DataFrame, _: int) -> None:
            rows = batch.collect()
            sizes.append(len(rows))
            seen.extend(f"{row.topic}:{bytes(row.payload).decode()}" for row in rows)

        query = (
            spark.readStream.format("txnconsole")
            .options(**options, topic=f"{prefix}*", columns="topic,payload")
            .option("maxMessagesPerTrigger", 8)
            .load()
            .writeStream.foreachBatch(note)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted(seen), sizes

    seen, sizes = run()
    assert seen == sorted(f"{first}:{number}" for number in range(10))
    assert max(sizes) <= 8
    second = f"{prefix}second"
    client.create_topic(second, partitions=1)
    produce(second, [b"new"])
    assert run()[0] == [f"{second}:new"]
    newest = max(
        (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda file: int(file.name)
    )
    offsets = json.loads(newest.read_text().splitlines()[-1])
    made = offsets.pop("made")
    assert made["by"] == "broker"
    assert made["at"].keys() == offsets.keys()
    assert offsets == {f"{first}:0": 11, f"{first}:1": 0, f"{second}:0": 2}


@pytest.mark.parametrize("way", ["brokers", "http"])
def test_a_stream_over_a_pattern_goes_on_without_a_topic_that_was_deleted_with_its_batch_planned(
    server: Served,
    options: dict[str, str],
    credentials: dict[str, str],
    *,
    way: str,
    new_topic: Callable[[int], str],
    produce: Callable[..., None],
) -> None:
    """As Spark calls the source when it has been started again, without Spark."""
    kept = new_topic(1)
    gone = f"{kept}-gone"
    given = (options if way == "brokers" else credentials) | {"topic": f"{kept}*"}

    def stream(fails: str = "false") -> StreamReader:
        source = TopicDataSource(given | {"columns": "payload", "failOnDataLoss": fails})
        return source.streamReader(source.schema())

    def read(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
        batches = (each for task in reader.partitions(start, end) for each in reader.read(task))
        return [row["payload"] for batch in batches for row in batch.to_pylist()]

    with server.client("admin") as admin:
        admin.put(f"/topics/{gone}", json={"partitions": 1}).raise_for_status()
        produce(kept, [b"a"])
        produce(gone, [b"lost"])
        planned = stream()
        start = planned.initialOffset()
        end = planned.latestOffset(start, ReadAllAvailable())
        admin.delete(f"/topics/{gone}").raise_for_status()
    with pytest.raises(DataLost, match=rf"deleted .*{gone}:0 from 0 to 2.*failOnDataLoss=false"):
        read(stream("true"), start, end)
    assert read(stream(), start, end) == [b"a"]
    produce(kept, [b"b"])
    onward = stream("true")
    assert read(onward, end, onward.latestOffset(end, ReadAllAvailable())) == [b"b"]
