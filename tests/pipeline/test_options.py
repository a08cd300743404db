"""The options of the data source by their names. No Spark, no server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from txnconsole.pipeline.datasource import TopicDataSource
from txnconsole.pipeline.messages import MESSAGE_SCHEMA
from txnconsole.pipeline.options import NAMES, require_spelt
from txnconsole.pipeline.writer import TopicWrite

_CONNECTION = {"url": "http://127.0.0.1:9", "token": "t"}
_TOPIC = {"topic": "public/default/flights"}
_PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("startingoffset", "startingOffsets"),
        ("topics", "topic"),
        ("broker", "brokers"),
        ("maxMessagesPerTriger", "maxMessagesPerTrigger"),
        ("failondataloss_", "failOnDataLoss"),
        ("checkpointlocaton", "checkpointLocation"),
        ("sinks", "sink"),
        ("snik", "sink"),
        ("sing", "sink"),
        ("ulr", "url"),
        ("uri", "url"),
        ("transactionTimeout", "transactionTimeoutMs"),
    ],
)
def test_a_name_that_is_nearly_an_option_is_refused_with_the_right_one(
    given: str, meant: str
) -> None:
    with pytest.raises(ValueError, match=f"There is no option {given}; the nearest is {meant}."):
        require_spelt([*_TOPIC, given])


def test_options_in_any_case_and_those_of_spark_and_of_other_sources_are_let_through() -> None:
    require_spelt([*NAMES, *(name.lower() for name in NAMES), *(name.upper() for name in NAMES)])
    require_spelt(["path", "mergeSchema", "recursiveFileLookup", "queryName", "outputMode", "mode"])
    require_spelt(["header", "dbtable", "user", "includeHeaders", "kafka.bootstrap.servers"])


def test_the_documented_options_are_known() -> None:
    tables = re.findall(r"^\| option of a .*?\n\n", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
    documented = re.findall(r"^\| `(\w+)` \|", "".join(tables), re.MULTILINE)
    assert {"startingOffsets", "transactionTimeoutMs"} <= {*documented} <= {*NAMES}


def test_reads_and_writes_of_batches_and_of_streams_look_at_the_names() -> None:
    read = TopicDataSource(_CONNECTION | _TOPIC | {"endingoffset": "latest"})
    for ask in (read.schema, lambda: read.reader(MESSAGE_SCHEMA)):
        with pytest.raises(ValueError, match="nearest is endingOffsets"):
            ask()
    write = _CONNECTION | _TOPIC | {"sink": "s", "batch": "1", "guards": "query"}
    for of in (TopicWrite.of_batch, TopicWrite.of_stream):
        with pytest.raises(ValueError, match="nearest is guard"):
            of(write)
