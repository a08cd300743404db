"""Which segments are due, writing their files, publishing them, and deleting unused files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
import pyarrow as pa

from txnconsole.pipeline.broker import statements
from txnconsole.pipeline.broker.databases import Databases
from txnconsole.pipeline.broker.logs import matches
from txnconsole.pipeline.offload.files import SCHEMA, Written, database_of, write
from txnconsole.pipeline.offload.store import PART, SUFFIX, Store

#: A file without a reference is kept for so long, because it may be about to get one.
_UNNAMED_SECONDS = 24 * 3600
#: A file older than this is not published any more. It is far less than the time above, so that no
#: file is deleted while it is published.
_NAMED_WITHIN_SECONDS = 3600


class Segment(NamedTuple):
    """A segment that is due; ``last_offset`` is its last. ``compacted_id`` is the key of the
    committed messages of a sidecar-buffered partition, -1 when it has none."""

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


def write_segment(databases: Databases, segment: Segment, store: Store) -> Written:
    """Write one segment's file; nothing refers to it yet.

    Raises:
        DamagedFile: what was read back is not what was written.
        OSError: the store cannot be written.
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
    return write(store, _entries(databases, segment), about)


def publish(databases: Databases, segment: Segment, written: Written, store: Store) -> bool:
    """Replace the segment's batches by references to the file, in one SQL transaction.

    Returns:
        False when the segment has changed since the file was written; then the file is deleted.

    Raises:
        FileNotFoundError: the file is gone.
        psycopg.Error: the broker cannot be reached, or its role may not write.
    """
    name = f"{written.file}{SUFFIX}"
    done = False
    if store.now() - store.modified(name) < _NAMED_WITHIN_SECONDS:
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
        store.delete(name)
    return done


def sweep(databases: Databases, store: Store) -> int:
    """Delete files of these brokers to which none of them refers, and incomplete files, when they
    are a day old; returns how many.

    The store belongs to one installation, of which these brokers may be a part. A broker's name
    depends on the list that it is in, so files are attributed by the identity of the database.

    Raises:
        psycopg.Error: a broker cannot be asked.
        OSError: the store cannot be reached.
    """
    ours = [each for each in store.listed() if _id_of(each.name) is not None]
    if not ours:
        return 0
    before = store.now() - _UNNAMED_SECONDS
    old = [each.name for each in ours if each.modified < before]
    named: set[UUID] = set()
    asked: set[str] = set()
    for broker in databases.brokers if old else ():
        with databases.planning(broker) as session:
            asked.add(_identity(session))
            named |= {row.file for row in session.execute(statements.named("offload_files"))}
    swept = 0
    for name in old:
        if _id_of(name) in named:
            continue
        if name.endswith(PART) or database_of(store, name) in asked:
            store.delete(name)
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
    """What distinguishes a database from every other."""
    [(identity,)] = session.execute(statements.named("identity")).fetchall()
    return str(identity)


def _id_of(name: str) -> UUID | None:
    if not name.endswith((SUFFIX, PART)):
        return None
    try:
        return UUID(name.partition(".")[0])
    except ValueError:
        return None
