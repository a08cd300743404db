"""The data source in batches, by a real Spark on a real server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from txnconsole.client import Client

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

NewTopic = Callable[[int], str]
Produce = Callable[..., None]
Committed = Callable[[str], list[bytes]]
Read = Callable[..., DataFrame]
RowsThrough = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@pytest.fixture
def read(spark: SparkSession, credentials: dict[str, str]) -> Read:
    def load(topic: str, **options: str) -> DataFrame:
        return spark.read.format("txnconsole").options(**credentials, topic=topic, **options).load()

    return load


@pytest.fixture
def write(credentials: dict[str, str]) -> Callable[..., DataFrameWriter]:
    def writer(frame: DataFrame, topic: str, **options: str) -> DataFrameWriter:
        options = credentials | {"topic": topic} | options
        return frame.write.format("txnconsole").mode("append").options(**options)

    return writer


Write = Callable[..., DataFrameWriter]


def _payloads(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.payload) for row in frame.select("payload").collect())


def test_read_committed_gives_committed_messages_up_to_the_stable_position(
    client: Client, read: Read, new_topic: NewTopic, produce: Produce
) -> None:
    topic = new_topic(2)
    produce(topic, [b"a", b"b"])
    produce(topic, [b"lost"], commit=False)
    produce(topic, [b"c"], partition=1)
    hanging = client.transaction(client="test")
    producer = client.producer(topic)
    producer.send(b"open", txn=hanging, partition=0)
    producer.flush(hanging)
    produce(topic, [b"behind"])
    assert _payloads(read(topic)) == [b"a", b"b", b"c"]
    assert _payloads(read(topic, order="committed")) == [b"a", b"b", b"behind", b"c"]
    everything = read(topic, isolation="read_uncommitted").where("kind = 'DATA'")
    assert _payloads(everything) == [b"a", b"b", b"behind", b"c", b"lost", b"open"]
    hanging.abort(wait=60)


def test_filters_on_one_frame_do_not_take_rows_from_one_another(
    read: Read, new_topic: NewTopic, produce: Produce
) -> None:
    """Spark keeps one plan for all uses of a loaded frame."""
    topic = new_topic(3)
    for number in range(3):
        produce(topic, [b"%d%d" % (number, n) for n in range(number + 2)], partition=number)
    frame = read(topic)
    first, second = frame.where("partition = 0"), frame.where("partition = 1")
    assert (first.count(), frame.count()) == (2, 9)
    assert first.unionAll(second).count() == 5
    assert frame.where("offset < 1").unionAll(frame).count() == 12
    assert _payloads(second) == [b"10", b"11", b"12"]


def test_filters_narrow_what_a_frame_reads_that_asks_for_it(
    read: Read, new_topic: NewTopic, produce: Produce
) -> None:
    topic = new_topic(2)
    produce(topic, [b"a", b"b", b"c"])
    produce(topic, [b"d"], partition=1)
    frame = read(topic, pushFilters="true").where("partition = 0 and offset > 0")
    assert _payloads(frame) == [b"b", b"c"]
    assert frame.rdd.getNumPartitions() == 1
    assert read(topic).where("partition = 0 and offset > 0").rdd.getNumPartitions() == 2


def test_a_topic_without_messages_is_an_empty_frame(read: Read, new_topic: NewTopic) -> None:
    assert read(new_topic(3)).count() == 0


def test_every_column_of_a_message_comes_through(
    spark: SparkSession, read: Read, write: Write, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    frame = spark.sql(
        "select cast('x' as binary) payload, 'UA' key, 1 partition, map('a', 'b') properties, "
        "timestamp '2013-01-01 10:00:00.123456' event_time"
    )
    write(frame, topic).save()
    row = read(topic).collect()[0].asDict()
    assert (bytes(row["payload"]), row["key"], row["partition"]) == (b"x", "UA", 1)
    assert (row["properties"], row["kind"], row["offset"]) == ({"a": "b"}, "DATA", 0)
    assert row["producer_name"].startswith("spark:")
    assert row["txn_id"]
    text = read(topic).selectExpr("cast(event_time as string)", "publish_time > event_time")
    assert tuple(text.collect()[0]) == ("2013-01-01 10:00:00.123456", True)


def test_only_the_columns_asked_for_are_read(
    read: Read, new_topic: NewTopic, produce: Produce
) -> None:
    topic = new_topic(1)
    produce(topic, [b"a"])
    frame = read(topic, columns="payload,offset")
    assert frame.columns == ["payload", "offset"]
    assert [tuple(row) for row in frame.collect()] == [(bytearray(b"a"), 0)]


def test_offsets_bound_a_read_on_both_sides(
    read: Read, new_topic: NewTopic, produce: Produce
) -> None:
    topic = new_topic(2)
    produce(topic, [b"a", b"b", b"c", b"d"])
    produce(topic, [b"e"], partition=1)
    offsets = {"startingOffsets": '{"0": 1, "1": 0}', "endingOffsets": '{"0": 3}'}
    assert _payloads(read(topic, **offsets)) == [b"b", b"c", b"e"]


def test_a_read_of_more_than_one_fetch_misses_nothing(
    read: Read, new_topic: NewTopic, produce: Produce
) -> None:
    topic = new_topic(1)
    sent = [b"%05d" % number for number in range(2345)]
    produce(topic, sent)
    assert _payloads(read(topic)) == sent


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"isolation": "serializable"}, "isolation is read_committed"),
        ({"columns": "weight"}, "columns names unknown"),
        ({"columns": "offset,key,offset"}, "twice"),
        ({"startingOffsets": "soon"}, "startingOffsets is earliest"),
        ({"endingOffset": "latest"}, "no option endingoffset; the nearest is endingOffsets"),
    ],
)
def test_a_wrong_option_is_told_before_anything_is_read(
    read: Read, new_topic: NewTopic, options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(PySparkException, match=complaint):
        read(new_topic(1), **options).collect()


def test_a_missing_topic_is_named(read: Read) -> None:
    with pytest.raises(PySparkException, match="TopicNotFound"):
        read("public/default/nowhere").collect()


def test_rows_of_one_key_go_where_the_client_sends_them(
    spark: SparkSession, client: Client, read: Read, write: Write, new_topic: NewTopic
) -> None:
    topic = new_topic(4)
    with client.transaction() as transaction:
        client.producer(topic).send(b"client", key="UA", txn=transaction)
    write(spark.sql("select 'spark' payload, 'UA' key"), topic).save()
    rows = read(topic, isolation="read_uncommitted").where("kind = 'DATA'").collect()
    assert len(rows) == 2
    assert len({row.partition for row in rows}) == 1


def test_a_named_write_that_is_repeated_does_nothing(
    spark: SparkSession, write: Write, new_topic: NewTopic, committed: Committed
) -> None:
    topic, name = new_topic(1), f"sink-{uuid.uuid4().hex}"
    frame = spark.range(10).selectExpr("cast(id as string) payload")
    for _ in range(2):
        write(frame, topic, sink=name, batch="2013-01-01").save()
    assert sorted(committed(topic)) == [b"%d" % number for number in range(10)]


def test_a_write_without_a_name_appends_each_time(
    spark: SparkSession, write: Write, new_topic: NewTopic, committed: Committed
) -> None:
    topic = new_topic(1)
    for _ in range(2):
        write(spark.sql("select 'x' payload"), topic).save()
    assert committed(topic) == [b"x", b"x"]


def _failing_once(url: str, token: str, sink: str) -> RowsThrough:
    """Pass rows on, then fail the first attempt of one task once both tasks have written some."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            with Client(url, token) as client:
                while len(list(client.transactions.list(client=f"spark:{sink}"))) < 2:
                    continue
            raise RuntimeError("a task fails after its rows were written")

    return run


def test_a_task_that_is_retried_after_writing_leaves_each_row_once(
    spark: SparkSession,
    credentials: dict[str, str],
    write: Write,
    new_topic: NewTopic,
    committed: Committed,
) -> None:
    topic, name = new_topic(2), f"sink-{uuid.uuid4().hex}"
    # Rows and batches of a size that lets the first ones be written before the task fails.
    rows = spark.range(0, 12000, 1, 2).selectExpr("lpad(cast(id as string), 300, '0') payload")
    failing = rows.mapInArrow(_failing_once(**credentials, sink=name), rows.schema)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
    try:
        write(failing, topic, sink=name, batch="0").save()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert sorted(committed(topic)) == [b"%0300d" % number for number in range(12000)]
    with Client(**credentials) as client:
        attempts = list(client.transactions.list(client=f"spark:{name}"))
    assert len(attempts) == 3
    assert not [each for each in attempts if each.status == "OPEN"]


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"topic": "public/default/nowhere"}, "There is no topic"),
        ({"token": "txc_wrong"}, "NotAuthenticated"),
        ({"sink": "s", "batch": "0", "checkpointLocation": "s3a://a/b"}, "cannot be read: .*s3a"),
    ],
)
def test_where_nothing_can_be_written_no_task_tries(
    spark: SparkSession,
    write: Write,
    new_topic: NewTopic,
    wrong: dict[str, str],
    complaint: str,
) -> None:
    rows = spark.range(1).selectExpr("cast(raise_error('a task has begun') as string) payload")
    topic = wrong.pop("topic", None) or new_topic(1)
    with pytest.raises(PySparkException, match=complaint):
        write(rows, topic, **wrong).save()


def test_a_write_that_fails_leaves_nothing_visible_and_nothing_open(
    spark: SparkSession,
    client: Client,
    write: Write,
    new_topic: NewTopic,
    committed: Committed,
) -> None:
    topic, name = new_topic(1), f"sink-{uuid.uuid4().hex}"
    rows = spark.range(0, 3000, 1, 2).selectExpr(
        "case when id = 2999 then raise_error('poison') else cast(id as string) end payload"
    )
    with pytest.raises(PySparkException, match="poison"):
        write(rows, topic, sink=name, batch="0").save()
    assert committed(topic) == []
    assert not list(client.transactions.list(client=f"spark:{name}", status="OPEN"))


@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        ("1 payload", {}, "payload must be binary or string"),
        ("'x' key", {}, "needs a column payload"),
        ("'x' payload", {"sink": "s"}, "sink and batch go together"),
        ("'x' payload", {"transactionTimeoutMs": "soon"}, "transactionTimeoutMs is a whole"),
    ],
)
def test_a_wrong_write_is_refused_before_anything_is_written(
    spark: SparkSession, write: Write, columns: str, options: dict[str, str], *, complaint: str
) -> None:
    with pytest.raises(PySparkException, match=complaint):
        write(spark.sql(f"select {columns}"), "public/default/nowhere", **options).save()


def test_a_topic_cannot_be_overwritten(
    spark: SparkSession, write: Write, new_topic: NewTopic
) -> None:
    with pytest.raises(PySparkException, match="mode append"):
        write(spark.sql("select 'x' payload"), new_topic(1)).mode("overwrite").save()
