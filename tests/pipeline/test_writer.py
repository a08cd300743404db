"""What a write's options say, and what a read's do alike. No Spark, no server."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from txnconsole.client import InvalidTxnStatus
from txnconsole.pipeline import writer
from txnconsole.pipeline.checkpoint import CheckpointUnknown
from txnconsole.pipeline.datasource import TopicDataSource
from txnconsole.pipeline.reader import TopicRead
from txnconsole.pipeline.writer import TopicWrite, Written

_OPTIONS = {"url": "http://127.0.0.1:9", "token": "t", "topic": "public/default/delays"}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"batch": "2013/01"}, "batch is a name without a slash"),
        ({"batch": ""}, "batch is a name"),
        ({"batch": "1" * 51}, "batch is a name"),
        ({"sink": ""}, "sink is a name of 1 to 200 characters"),
        ({"sink": "s" * 201}, "sink is a name"),
        ({"guard": ""}, "guard is a name of 1 to 239 characters"),
        ({"transactionTimeoutMs": "3600001"}, "transactionTimeoutMs is 3600000 at most"),
    ],
)
def test_what_the_server_would_not_take_or_take_for_another_is_refused(
    given: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        TopicWrite.of_batch(_OPTIONS | {"sink": "delays", "batch": "1"} | given)


def test_the_name_of_a_sink_may_be_a_path_and_a_stream_needs_one() -> None:
    write = TopicWrite.of_batch(_OPTIONS | {"sink": "public/delays", "batch": "2013-01"})
    assert (write.sink.name, write.batch and write.batch.number) == ("public/delays", "2013-01")
    assert write.sink.timeout == 300.0
    with pytest.raises(ValueError, match="sink is a name"):
        TopicWrite.of_stream(_OPTIONS | {"sink": ""})


def test_what_a_read_or_a_write_lacks_is_named() -> None:
    connection = {name: _OPTIONS[name] for name in ("url", "token")}
    with pytest.raises(ValueError, match="Name what to read: option topic"):
        TopicRead.of(connection, fails=True)
    with pytest.raises(ValueError, match="Name where to write: option topic"):
        TopicWrite.of_batch(connection)
    with pytest.raises(ValueError, match="A stream needs option sink"):
        TopicWrite.of_stream(_OPTIONS)


def test_a_stream_whose_checkpoint_cannot_be_read_is_refused_before_it_writes(
    tmp_path: Path,
) -> None:
    schema = StructType([StructField("payload", StringType())])
    options = _OPTIONS | {"sink": "delays", "checkpointLocation": str(tmp_path / "gone")}
    with pytest.raises(CheckpointUnknown, match="the query's own"):
        TopicDataSource(options).streamWriter(schema, overwrite=False)
    (tmp_path / "gone" / "offsets").mkdir(parents=True)
    assert TopicDataSource(options).streamWriter(schema, overwrite=False)


def test_a_write_whose_time_was_too_short_is_told_the_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a task, whose rows may come slowly, and where the batch is decided."""

    def passed(*_: object) -> None:
        raise InvalidTxnStatus("0:1 is ABORTED because its deadline had passed.", status=409)

    write = TopicWrite.of_batch(_OPTIONS)
    assert write.batch is not None
    monkeypatch.setattr(writer, "Attempt", passed)
    monkeypatch.setattr(writer.exactly_once, "commit", passed)
    told = r"deadline had passed\. .* longer transactionTimeoutMs"
    with pytest.raises(InvalidTxnStatus, match=told):
        write.write([pa.record_batch({"payload": [b"a"]})])
    with pytest.raises(InvalidTxnStatus, match=told) as refusal:
        write.commit([Written(write.batch, "0:1", 1)])
    assert refusal.value.status == 409
