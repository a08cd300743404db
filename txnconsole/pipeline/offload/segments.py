"""Which segments are due, writing one down, telling its broker, and sweeping what nobody names."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
import pyarrow as pa

from txnconsole.pipeline.broker import statements
from txnconsole.pipeline.broker.databases import Databases
from txnconsole.pipeline.broker.logs import matches
from txnconsole.pipeline.offload.files import PART, SCHEMA, SUFFIX, Written, database_of, write

#: A file that nobody names is left for so long: it may be on its way.
_UNNAMED_SECONDS = 24 * 3600
#: A file that is older is not named any more; far below the other, so that the two never meet.
_NAMED_WITHIN_SECONDS = 3600


class Segment(NamedTuple):
    """A segment that is due; ``last_offset`` is its last. ``compacted_id`` keys the committed
    messages of a sidecar-buffered partition; -1: it has none."""

    broker: str
    topic: str
    number: int
    partition_id: int
    compacted_id: int
    ledger_id: int
    first_offset: int
    last_offset: int


def due(databases: Databases, topics: str, older_than_hours: int) -> list[Segment]:
    """Sealed segments of topics that match a pattern, not offloaded yet, the oldest first.

    Raises:
        psycopg.Error: a broker cannot be reached or read.
    """
    found: list[Segment] = []
    for broker in databases.brokers:
        with databases.planning(broker) as session:
            rows = session.execute(
                statements.named("offload_due"), {"hours": older_than_hours}
            ).fetchall()
        found += [Segment(broker, *row) for row in rows if matches(row.topic, topics)]
    return found


def write_segment(databases: Databases, segment: Segment, directory: Path) -> Written:
    """Write one segment's file; nobody names it yet.

    Raises:
        DamagedFile: it was read back other than it was written.
        OSError: the directory cannot be written.
    """
    with databases.planning(segment.broker) as session:
        database = _identity(session)
    about = {
        "broker": segment.broker,
        "database": database,
        "topic": segment.topic,
        "partition": str(segment.number),
        "ledger_id": str(segment.ledger_id),
        "first_offset": str(segment.first_offset),
        "last_offset": str(segment.last_offset),
    }
    return write(directory, _entries(databases, segment), about)


def publish(databases: Databases, segment: Segment, written: Written, directory: Path) -> bool:
    """Let the file take the place of the segment's batches, in one SQL transaction; False when the
    segment is not what the file was made of any more: then the file is deleted.

    Raises:
        FileNotFoundError: the file has gone.
        psycopg.Error: the broker cannot be reached, or its role may not write.
    """
    path = directory / f"{written.file}{SUFFIX}"
    done = False
    if _now(directory) - path.stat().st_mtime < _NAMED_WITHIN_SECONDS:
        with databases.writing(segment.broker) as session:
            [(done,)] = session.execute(
                statements.named("offload_segment"),
                {
                    "partition_id": segment.partition_id,
                    "ledger_id": segment.ledger_id,
                    "last_offset": segment.last_offset,
                    "file": written.file,
                    "data_entries": written.data_entries,
                    "data_bytes": written.data_bytes,
                    "file_bytes": written.file_bytes,
                    "sha256": written.sha256,
                },
            ).fetchall()
    if not done:
        path.unlink()
    return done


def sweep(databases: Databases, directory: Path) -> int:
    """Delete files of these brokers that none of them names, and parts of files, a day old; how
    many. The directory belongs to one installation, of which these may be a part: what a broker is
    called hangs on the list that it stands in, so a file is known by its database's identity.

    Raises:
        psycopg.Error: a broker cannot be asked.
    """
    if not directory.is_dir():
        return 0
    before = _now(directory) - _UNNAMED_SECONDS
    old = [
        path
        for path in directory.glob(f"*{SUFFIX}*")
        if _id_of(path) is not None and path.stat().st_mtime < before
    ]
    named: set[UUID] = set()
    asked: set[str] = set()
    for broker in databases.brokers if old else ():
        with databases.planning(broker) as session:
            asked.add(_identity(session))
            named |= {row.file for row in session.execute(statements.named("offload_files"))}
    swept = 0
    for path in old:
        if _id_of(path) in named:
            continue
        if path.name.endswith(PART) or database_of(path) in asked:
            path.unlink()
            swept += 1
    return swept


def _entries(databases: Databases, segment: Segment) -> Iterator[pa.RecordBatch]:
    numbers = {
        "log_id": segment.partition_id,
        "compacted_id": segment.compacted_id,
        "lower": segment.first_offset,
        "last": segment.last_offset,
    }
    with databases.reading(segment.broker) as reading:
        for batch in reading.batches(statements.complete("offload_entries", numbers)):
            yield batch.cast(SCHEMA)


def _identity(session: psycopg.Connection[Any]) -> str:
    """What tells a database from every other."""
    [(identity,)] = session.execute(statements.named("identity")).fetchall()
    return str(identity)


def _now(directory: Path) -> float:
    """The time by the clock that dates the directory's files."""
    with tempfile.NamedTemporaryFile(dir=directory) as probe:
        return Path(probe.name).stat().st_mtime


def _id_of(path: Path) -> UUID | None:
    try:
        return UUID(path.name.partition(".")[0])
    except ValueError:
        return None
