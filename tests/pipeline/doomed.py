"""A driver that is killed at a chosen moment of a chosen batch: ``kill -9`` of its whole group.

Run as a program by test_kill.py; the classes are also imported by Spark's workers.
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Iterator
from typing import NoReturn

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from txnconsole.pipeline.datasource import TopicDataSource
from txnconsole.pipeline.session import build_session, stop_session
from txnconsole.pipeline.writer import StreamWriter, TopicWrite, Written

#: The moments, in the order in which a batch passes them.
MID_WRITE, WRITTEN, BEFORE_COMMIT, AFTER_COMMIT = (
    "mid-write",
    "written",
    "before-commit",
    "after-commit",
)


class DoomedWriter(StreamWriter):
    """The product's writer, and a kill."""

    def __init__(self, write: TopicWrite, *, moment: str, batch: int, group: int) -> None:
        super().__init__(write)
        self._moment, self._batch, self._group = moment, batch, group

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        written = super().write(self._watched(iterator))
        if self._dies_at(WRITTEN, int(written.batch.number)):
            self._die()
        return written

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if self._dies_at(BEFORE_COMMIT, batchId):
            self._die()
        super().commit(messages, batchId)
        if self._dies_at(AFTER_COMMIT, batchId):
            self._die()

    def _watched(self, iterator: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, rows in enumerate(iterator):
            if number == 3 and self._moment == MID_WRITE:
                self._die()  # The first rows are on their way to the server by now.
            yield rows

    def _dies_at(self, moment: str, batch: int) -> bool:
        return self._moment == moment and self._batch == batch

    def _die(self) -> NoReturn:
        os.killpg(self._group, signal.SIGKILL)
        signal.pause()
        raise AssertionError("SIGKILL cannot be survived")


class DoomedDataSource(TopicDataSource):
    @classmethod
    def name(cls) -> str:
        return "doomed"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DoomedWriter:  # noqa: N802
        del schema, overwrite
        return DoomedWriter(
            TopicWrite.of_stream(self.options),
            moment=self.options["moment"],
            batch=int(self.options["batch"]),
            group=int(self.options["group"]),
        )


def main() -> None:
    """Copy a topic until nothing is left to copy, or until death; see ``--help``."""
    parser = argparse.ArgumentParser()
    for name in ("source", "target", "sink", "checkpoint", "moment", "batch"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    # Small Arrow batches, so that a task is given its rows in several pieces.
    spark = build_session("doomed", config={"spark.sql.execution.arrow.maxRecordsPerBatch": "1400"})
    spark.dataSource.register(DoomedDataSource)
    rows = (
        spark.readStream.format("txnconsole")
        .options(topic=given.source, columns="payload", maxMessagesPerTrigger="5000")
        .load()
    )
    # One task, whose rows come out of a shuffle in another order at every attempt.
    query = (
        rows.repartition(1)
        .writeStream.format("doomed")
        .options(topic=given.target, sink=given.sink, checkpointLocation=given.checkpoint)
        .options(moment=given.moment, batch=given.batch, group=str(os.getpgid(0)))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    stop_session(spark)


if __name__ == "__main__":
    # Spark's workers import the classes by the name of this module, which is not __main__.
    from tests.pipeline import doomed

    doomed.main()
