"""The sink as Spark calls it, for batches and for streams.

What Spark promises (reference/spark.md, section c): a task attempt runs ``write`` to its end before
it is decided whether it counts; ``commit`` may be called again for the same batch after a restart;
``abort`` may be called after a ``commit`` that raised, and without any messages. In a stream the
driver and the tasks have different writer objects, in different processes, so only the commit
messages carry information from ``write`` to ``commit``.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa
import structlog
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from txnconsole.client import InvalidTxnStatus, TxnConsoleError
from txnconsole.pipeline import sink as exactly_once
from txnconsole.pipeline.checkpoint import Planned, require_planned
from txnconsole.pipeline.options import Connection, name, positive, require_spelt
from txnconsole.pipeline.sink import Attempt, Batch, Sink
from txnconsole.pipeline.subscription import claims_of

_log = structlog.get_logger(__name__)
#: The longest is the server's.
_DEFAULT_TIMEOUT_MS, _LONGEST_TIMEOUT_MS = 300_000, 3_600_000
#: How many seconds a batch write waits after its decision for all of it to be visible.
_VISIBLE_WITHIN = 10.0
#: A group's key, ``sink/batch``, has 256 characters at most, and so has ``guard/covers``.
_SINK_LENGTH, _BATCH_LENGTH, _GUARD_LENGTH = 200, 50, 239
#: Spark has no public way to tell a task these; they are local properties of its thread. A test
#: checks that they still are.
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
_RUN_ID = "spark.jobGroup.id"


@dataclass
class Written(WriterCommitMessage):
    """What an attempt tells the driver: its batch, and its transaction (None without rows)."""

    batch: Batch
    txn_id: str | None
    messages: int


@dataclass(frozen=True)
class TopicWrite:
    """What a write's options say.

    ``batch`` is None in a stream, whose tasks ask Spark for it. ``checkpoint`` is the query's
    checkpoint, which has the offsets of its batches: they tell a batch that is repeated from
    another of its number, and what a batch has read of a subscription, which is acknowledged
    together with it.
    """

    connection: Connection
    sink: Sink
    batch: Batch | None
    checkpoint: str | None = None

    @classmethod
    def of_stream(cls, options: Mapping[str, str]) -> Self:
        """Read a streaming write's options.

        Raises:
            ValueError: an option is missing, misspelt or malformed.
        """
        require_spelt(options)
        if "sink" not in options:
            raise ValueError(
                "A stream needs option sink: a name of its own for this output, which lives as "
                "long as its checkpoint."
            )
        sink = _sink(options, options["sink"])
        return cls(Connection.of(options), sink, None, options.get("checkpointLocation"))

    @classmethod
    def of_batch(cls, options: Mapping[str, str]) -> Self:
        """Read a batch write's options. With ``sink`` and ``batch``, repeating the write does
        nothing. Within ``foreachBatch``, ``checkpointLocation`` is to be the query's.

        Raises:
            ValueError: an option is missing, misspelt or malformed.
        """
        require_spelt(options)
        if ("sink" in options) != ("batch" in options):
            raise ValueError("Options sink and batch go together: they name a write for good.")
        sink = _sink(options, options.get("sink", f"write-{uuid.uuid4()}"))
        run = str(uuid.uuid4())
        guard = name("guard", options.get("guard", "batch"), longest=_GUARD_LENGTH)
        batch = Batch(_batch_name(options.get("batch", "0")), guard, run)
        return cls(Connection.of(options), sink, batch, options.get("checkpointLocation"))

    def require_topic(self) -> None:
        """Find a wrong address, token or topic before any task does, each in four attempts.

        Raises:
            TxnConsoleError: the topic is not there, or the token is not for it, or no server is.
        """
        self.connection.client().topic(self.sink.topic)

    def require_checkpoint(self) -> None:
        """Find a checkpoint that the commit could not read, before any row is sent.

        Raises:
            CheckpointUnknown: it cannot be read from here, or is not that of this batch.
        """
        if self.checkpoint is not None:
            number = None if self.batch is None else self.batch.number
            require_planned(self.checkpoint, number)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Run one task attempt."""
        batch = self.batch or _batch_of_this_task()
        with _in_time(), Attempt(self.connection.client(), self.sink, batch) as attempt:
            for rows in batches:
                attempt.write(rows)
            attempt.finish()
        return Written(batch, attempt.txn_id, attempt.messages)

    def commit(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        """Decide the batch that the winning attempts wrote."""
        written = [message for message in messages if isinstance(message, Written)]
        winners = [message.txn_id for message in written if message.txn_id is not None]
        batches = {message.batch for message in written}
        if len(batches) != 1:
            raise ValueError(f"The attempts of one commit name {len(batches)} batches.")
        batch, claims = batches.pop(), []
        if self.checkpoint is not None:
            planned = Planned.read(self.checkpoint, batch.number)
            batch, claims = replace(batch, covers=planned.digest), claims_of(planned)
        with _in_time():
            exactly_once.commit(self.connection.client(), self.sink, batch, winners, claims)

    def await_visible(self) -> None:
        """Let a program's next line read what it has written: ends are carried out by workers."""
        exactly_once.await_visible(self.connection.client(), self.sink, seconds=_VISIBLE_WITHIN)

    def abort(self, number: str) -> None:
        """Abort what is left of a batch that has failed. What fails here, too, would hide why; the
        sink's next run aborts it, or its time passes."""
        try:
            exactly_once.abort(self.connection.client(), self.sink, number)
        except (TxnConsoleError, ValueError) as error:
            _log.warning(
                "attempts_not_aborted",
                sink=self.sink.name,
                batch=number,
                error=type(error).__name__,
            )


class BatchWriter(DataSourceArrowWriter):
    """``df.write.format("txnconsole")``: all rows become visible at once, or none."""

    def __init__(self, write: TopicWrite) -> None:
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._write.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._write.commit(messages)
        self._write.await_visible()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._write.batch is not None:
            self._write.abort(self._write.batch.number)


class StreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream.format("txnconsole")``: each micro-batch exactly once."""

    def __init__(self, write: TopicWrite) -> None:
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._write.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._write.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._write.abort(str(batchId))


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    """Tell whose transaction has ended early which option gives it longer.

    Raises:
        InvalidTxnStatus: it has.
    """
    try:
        yield
    except InvalidTxnStatus as error:
        raise InvalidTxnStatus(
            f"{error} Nothing of this write is visible: write it again; where its time was too"
            " short, with a longer transactionTimeoutMs.",
            status=error.status,
            data=error.data,
        ) from error


def _batch_name(text: str) -> str:
    """A batch's name. Without slashes: else ``a/b`` and ``1`` would have the key of ``a`` and
    ``b/1``, and the second write would be taken for a repetition of the first.

    Raises:
        ValueError: it is empty, too long, or has a slash.
    """
    if "/" in text:
        raise ValueError(f"batch is a name without a slash, not {text[:40]!r}.")
    return name("batch", text, longest=_BATCH_LENGTH)


def _sink(options: Mapping[str, str], sink: str) -> Sink:
    if "topic" not in options:
        raise ValueError("Name where to write: option topic, such as public/default/delays.")
    text = options.get("transactionTimeoutMs", str(_DEFAULT_TIMEOUT_MS))
    timeout = positive("transactionTimeoutMs", text, most=_LONGEST_TIMEOUT_MS)
    return Sink(name("sink", sink, longest=_SINK_LENGTH), options["topic"], timeout / 1000)


def _batch_of_this_task() -> Batch:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("A task attempt runs within a Spark task.")
    query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    if query is None or batch is None:
        raise RuntimeError("Spark did not tell this task its streaming query and batch.")
    return Batch(number=batch, guard=query, run=context.getLocalProperty(_RUN_ID) or "")
