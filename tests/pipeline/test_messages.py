from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from txnconsole.client import Message
from txnconsole.pipeline.messages import (
    MESSAGE_SCHEMA,
    arrow_schema,
    check_readable,
    check_writable,
    message_schema,
    to_arrow,
)

_TIME = datetime(2013, 1, 1, 10, 0, 0, 123456, tzinfo=UTC)
_MESSAGE = Message(
    message_id="0:4:1:0",
    offset=4,
    partition=1,
    kind="DATA",
    txn_id=None,
    key="UA",
    payload=b"\xff\x00",
    properties={"a": "b"},
    event_time=None,
    publish_time=_TIME,
    producer_name=None,
    sequence_id=None,
)


def _schema(*fields: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields])


def test_a_message_becomes_a_row_of_the_exact_arrow_schema_that_spark_demands() -> None:
    batch = to_arrow([_MESSAGE], "public/default/flights", arrow_schema(MESSAGE_SCHEMA))
    assert batch.schema == arrow_schema(MESSAGE_SCHEMA)
    row = batch.to_pylist(maps_as_pydicts="strict")[0]
    assert (row["payload"], row["properties"], row["publish_time"]) == (
        b"\xff\x00",
        {"a": "b"},
        _TIME,
    )


def test_no_messages_are_a_batch_of_the_same_schema() -> None:
    assert to_arrow([], "public/default/flights", arrow_schema(MESSAGE_SCHEMA)).num_rows == 0


def test_columns_are_given_in_the_order_asked_for() -> None:
    assert message_schema("payload, offset").names == ["payload", "offset"]


def test_an_unknown_column_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"\['weight'\].*payload"):
        message_schema("payload,weight")


_PAYLOAD = ("payload", BinaryType())


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (_schema(("key", StringType())), "needs a column payload"),
        (_schema(_PAYLOAD, ("weight", IntegerType())), "Column weight cannot be written"),
        (_schema(_PAYLOAD, _PAYLOAD), r"\['payload'\] are there twice"),
        (_schema(("payload", IntegerType())), "payload must be binary or string, not int"),
        (_schema(_PAYLOAD, ("partition", StringType())), "Column partition must be"),
        (
            _schema(_PAYLOAD, ("properties", MapType(StringType(), IntegerType()))),
            "Column properties must be map<string,string>, not map<string,int>",
        ),
    ],
)
def test_a_frame_that_is_not_one_of_messages_is_refused(schema: StructType, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_writable(schema)


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (_schema(("weight", IntegerType())), "A message has no column weight"),
        (_schema(("payload", StringType())), "Column payload is binary, not string"),
    ],
)
def test_a_schema_that_messages_do_not_have_is_refused(schema: StructType, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_readable(schema)


def test_a_schema_of_some_of_a_messages_columns_is_accepted() -> None:
    check_readable(_schema(("offset", LongType()), ("payload", BinaryType())))


def test_a_schema_that_denies_nulls_where_there_may_be_some_is_refused() -> None:
    with pytest.raises(ValueError, match="key may be null"):
        check_readable(StructType([StructField("key", StringType(), nullable=False)]))
    check_readable(StructType([StructField("offset", LongType(), nullable=False)]))


def test_a_frame_of_messages_is_accepted() -> None:
    check_writable(
        _schema(
            ("payload", StringType()),
            ("key", StringType()),
            ("partition", IntegerType()),
            ("properties", MapType(StringType(), StringType())),
            ("event_time", TimestampType()),
        )
    )
