"""The Spark data source ``txnconsole``: which class reads and which writes."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from txnconsole.pipeline.messages import check_readable, check_writable, message_schema
from txnconsole.pipeline.reader import BatchReader, NarrowingReader, StreamReader, TopicRead
from txnconsole.pipeline.writer import BatchWriter, StreamWriter, TopicWrite

_ONLY_OF_BATCHES = ("endingOffsets", "snapshot", "pushFilters")


class TopicDataSource(DataSource):
    """``format("txnconsole")``; docs/pipeline.md lists the options.

    Spark pickles this class by reference, so planner and executors must be able to import it.
    """

    @classmethod
    def name(cls) -> str:
        return "txnconsole"

    def schema(self) -> StructType:
        # Checks the options: an error raised here reaches the user, one of streamReader does not.
        TopicRead.of(self.options, fails=True)
        return message_schema(self.options.get("columns"))

    def reader(self, schema: StructType) -> BatchReader:
        if "subscription" in self.options:
            raise ValueError("Option subscription is of a stream only: use readStream.")
        check_readable(schema)
        read = TopicRead.of(self.options, fails=True)
        return NarrowingReader(read, schema) if read.push_filters else BatchReader(read, schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        read = TopicRead.of(self.options, fails=False)
        return StreamReader(read, schema, self._refusal(schema))

    def _refusal(self, schema: StructType) -> ValueError | None:
        """Why a stream cannot be as it is asked for, if so."""
        for option in _ONLY_OF_BATCHES:
            if option in self.options:
                return ValueError(f"Option {option} is of a batch read only: leave it out.")
        try:
            check_readable(schema)
        except ValueError as error:
            return error
        return None

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        _check_write(schema, overwrite)
        write = TopicWrite.of_batch(self.options)
        write.require_topic()
        write.require_checkpoint()
        return BatchWriter(write)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        _check_write(schema, overwrite)
        write = TopicWrite.of_stream(self.options)
        write.require_checkpoint()  # Spark asks once a batch is planned.
        return StreamWriter(write)


def _check_write(schema: StructType, overwrite: bool) -> None:
    if overwrite:
        raise ValueError("A topic is a log: write to it in mode append.")
    check_writable(schema)
