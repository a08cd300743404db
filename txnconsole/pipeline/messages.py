"""Messages as DataFrame columns, named as in design/api.md; payloads are binary."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
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

_PROPERTIES = MapType(StringType(), StringType(), valueContainsNull=False)

#: All columns that a read can have.
MESSAGE_SCHEMA = StructType(
    [
        StructField("message_id", StringType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("kind", StringType(), nullable=False),
        StructField("txn_id", StringType()),
        StructField("key", StringType()),
        StructField("payload", BinaryType(), nullable=False),
        StructField("properties", _PROPERTIES, nullable=False),
        StructField("event_time", TimestampType()),
        StructField("publish_time", TimestampType(), nullable=False),
        StructField("producer_name", StringType()),
        StructField("sequence_id", LongType()),
        StructField("topic", StringType(), nullable=False),
        # In committed order: its own offset, or that of its transaction's commit marker.
        StructField("readable_at", LongType()),
    ]
)

#: The columns that a write takes, with their types; all but the payload may be left out.
_WRITABLE = {
    "payload": (BinaryType, StringType),
    "key": (StringType,),
    "partition": (IntegerType, LongType),
    "properties": (MapType,),
    "event_time": (TimestampType,),
}


def message_schema(columns: str | None) -> StructType:
    """The columns of a read, in the order asked for. They are asked for by an option, because Spark
    does not tell a Python source which columns a query uses.

    Args:
        columns: comma-separated names, or None for all.

    Raises:
        ValueError: a name is not a message's column.
    """
    if columns is None:
        return MESSAGE_SCHEMA
    names = [name.strip() for name in columns.split(",")]
    if unknown := sorted(set(names) - set(MESSAGE_SCHEMA.names)):
        raise ValueError(f"columns names unknown {unknown}; a message has {MESSAGE_SCHEMA.names}.")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"columns names {twice} twice.")
    return StructType([MESSAGE_SCHEMA[name] for name in names])


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark demands of a read's batches."""
    return to_arrow_schema(schema, timezone="UTC")


def to_arrow(messages: Sequence[Message], topic: str, schema: pa.Schema) -> pa.RecordBatch:
    """Messages of a topic as an Arrow batch.

    Raises:
        PermissionError: the token may not read payloads, and the schema has that column.
    """
    columns = [
        pa.array([_cell(message, topic, field.name) for message in messages], type=field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cell(message: Message, topic: str, column: str) -> object:
    match column:
        case "payload" if message.payload_masked:
            raise PermissionError(
                "The token may not read payloads: give it the role consumer, or leave the column"
                " out."
            )
        case "topic":
            return topic
        case "properties":
            return list(message.properties.items())
        case _:
            return getattr(message, column)


def check_readable(schema: StructType) -> None:
    """Refuse a schema given by the user that is not one of a message's columns.

    Raises:
        ValueError: a column is unknown or of another type.
    """
    for field in schema:
        if field.name not in MESSAGE_SCHEMA.names:
            raise ValueError(
                f"A message has no column {field.name}; it has {MESSAGE_SCHEMA.names}."
            )
        kind = MESSAGE_SCHEMA[field.name].dataType
        if not _alike(field.dataType, kind):
            raise ValueError(
                f"Column {field.name} is {kind.simpleString()}, not"
                f" {field.dataType.simpleString()}: read it so, and cast it then."
            )
        if MESSAGE_SCHEMA[field.name].nullable and not field.nullable:
            # Spark would leave out looks for null, and fail at the first one.
            raise ValueError(f"Column {field.name} may be null: leave out NOT NULL.")


def check_writable(schema: StructType) -> None:
    """Refuse, before anything is written, a DataFrame whose rows are not messages.

    Raises:
        ValueError: the payload is missing, or a column is unknown, of another type, or there twice.
    """
    if "payload" not in schema.names:
        raise ValueError("A DataFrame written to a topic needs a column payload.")
    if twice := sorted({name for name in schema.names if schema.names.count(name) > 1}):
        raise ValueError(f"Columns {twice} are there twice: leave one of each.")
    for field in schema:
        types = _WRITABLE.get(field.name)
        if types is None:
            raise ValueError(
                f"Column {field.name} cannot be written; the columns are {sorted(_WRITABLE)}."
            )
        if not isinstance(field.dataType, types):
            wanted = " or ".join(kind.typeName() for kind in types)
            found = field.dataType.simpleString()
            raise ValueError(f"Column {field.name} must be {wanted}, not {found}.")
        if isinstance(field.dataType, MapType) and not _is_of_texts(field.dataType):
            found = field.dataType.simpleString()
            raise ValueError(f"Column {field.name} must be map<string,string>, not {found}.")


def _alike(given: DataType, kind: DataType) -> bool:
    """Whether types are the same but for what may be null."""
    return given.simpleString() == kind.simpleString()


def _is_of_texts(each: MapType) -> bool:
    return isinstance(each.keyType, StringType) and isinstance(each.valueType, StringType)
