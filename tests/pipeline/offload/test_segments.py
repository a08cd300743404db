"""Which segments go, what stands in their files, and what is left by a run that was killed."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest

from engine import Engine
from engine.model.message import NewMessage
from engine.model.txn_id import TxnID
from tests.engine.support import (
    P0,
    abort,
    batch,
    broker_sql,
    commit,
    fetched,
    make_topic,
    noise,
    open_txn,
)
from tests.pipeline.offload.conftest import Offloading
from tests.support import databases as support
from txnconsole.pipeline.broker.databases import Databases
from txnconsole.pipeline.offload.files import DamagedFile, OffloadedFiles
from txnconsole.pipeline.offload.segments import due, sweep
from txnconsole.pipeline.offload.store import Store


def produce(engine: Engine, count: int, txn_id: TxnID | None = None) -> list[str]:
    texts = [noise(number, 150).hex() for number in range(count)]
    for text in texts:
        engine.produce(P0, batch(text), txn_id=txn_id)
    return texts


def aged(*paths: Path) -> None:
    """Let two days pass for files."""
    for path in paths:
        past = path.stat().st_mtime - 2 * 86_400
        os.utime(path, (past, past))


def test_only_sealed_segments_below_the_stable_position_are_due(
    engine: Engine, offloading: Offloading
) -> None:
    make_topic(engine, segment_max_messages=2)
    produce(engine, 4)
    txn_id = open_txn(engine)
    produce(engine, 3, txn_id)
    assert [(s.first_offset, s.last_offset) for s in offloading.due()] == [(0, 1), (2, 3)]
    assert due(offloading.databases, "*", 1) == []
    assert due(offloading.databases, "public/other/*", 0) == []
    commit(engine, txn_id)
    assert [s.first_offset for s in offloading.due()] == [0, 2, 4]
    broker_sql(engine, "UPDATE broker.partition SET online = false")
    assert offloading.due() == []


def test_a_file_holds_entries_in_the_order_of_the_log_and_tells_what_became_of_each(
    engine: Engine, offloading: Offloading
) -> None:
    make_topic(engine, segment_max_messages=6)
    committed, aborted = open_txn(engine), open_txn(engine)
    produce(engine, 2, committed)
    produce(engine, 1, aborted)
    produce(engine, 1)
    abort(engine, aborted)
    commit(engine, committed)
    produce(engine, 1)
    [written] = offloading.all()
    table = pq.read_table(offloading.directory / f"{written.file}.parquet")
    rows = [
        (row["last_offset"], row["kind"], row["sequence"], row["readable_at"], row["aborted"])
        for row in table.to_pylist()
    ]
    assert rows == [
        (0, "D", committed.sequence, 5, False),
        (1, "D", committed.sequence, 5, False),
        (2, "D", aborted.sequence, None, True),
        (3, "D", None, 3, False),
        (4, "A", aborted.sequence, None, False),
        (5, "C", committed.sequence, None, False),
    ]
    about = table.schema.metadata
    assert (about[b"txnconsole.topic"], about[b"txnconsole.first_offset"]) == (
        str(P0.topic).encode(),
        b"0",
    )
    [row] = broker_sql(engine, "SELECT * FROM broker.offloaded_segment")
    assert (str(row.file), row.data_entries, row.sha256) == (written.file, 4, written.sha256)
    newest, offloaded = engine.log.segments(P0)
    assert (newest.offloaded_at, offloaded.offloaded_at) == (None, row.offloaded_at)


def test_a_run_that_was_killed_before_it_told_the_broker_left_a_file_that_is_swept(
    engine: Engine, offloading: Offloading, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, segment_max_messages=2)
    texts = produce(engine, 3)
    [segment] = offloading.due()
    lost = offloading.write(segment)
    with monkeypatch.context() as killed:
        killed.setattr(Store, "delete", lambda *_: None)
        offloading.store.now()
    [probe] = offloading.files - {f"{lost.file}.parquet"}
    part = offloading.directory / f"{uuid4()}.parquet.part"
    part.write_bytes(b"half")
    assert fetched(engine) == texts
    [written] = offloading.all()
    assert fetched(engine) == texts
    # They may be on their way still.
    assert sweep(offloading.databases, offloading.store) == 0
    stranger = offloading.directory / f"{uuid4()}.parquet"
    stranger.write_bytes(b"not of these brokers")
    paths = [offloading.directory / f"{one.file}.parquet" for one in (lost, written)]
    aged(*paths, part, offloading.directory / probe, stranger)
    assert sweep(offloading.databases, offloading.store) == 3
    assert offloading.files == {f"{written.file}.parquet", stranger.name}


def test_a_file_for_which_there_is_no_room_is_not_left_in_part(
    engine: Engine, offloading: Offloading
) -> None:
    """It would take the room from the next run; the sweep needs none."""
    make_topic(engine, segment_max_messages=2)
    texts = produce(engine, 3)
    [segment] = offloading.due()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # Refused as by a full disk.
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            offloading.write(segment)
        assert str(offloading.directory) in str(raised.value)
        assert offloading.store.now() > 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert offloading.files == set()
    offloading.all()
    assert fetched(engine) == texts


def test_a_sweep_that_asks_some_brokers_leaves_the_files_of_the_others(
    engine: Engine, offloading: Offloading, databases: support.Databases
) -> None:
    """Whatever they are called: by itself, the second broker is the first of the list."""
    make_topic(engine, segment_max_messages=2)
    texts = produce(engine, 3)
    offloading.write(offloading.due()[0])
    [written] = offloading.all()
    aged(*offloading.directory.iterdir())
    for url in databases.broker_urls:
        if url != offloading.databases.urls[engine.log.locate(P0).database.name]:
            assert sweep(Databases.of({"brokers": url}, {}), offloading.store) == 0
    assert fetched(engine) == texts
    assert sweep(offloading.databases, offloading.store) == 1
    assert offloading.files == {f"{written.file}.parquet"}
    assert fetched(engine) == texts


def test_a_segment_that_has_changed_meanwhile_is_left_as_it_is(
    engine: Engine, offloading: Offloading
) -> None:
    make_topic(engine, segment_max_messages=4)
    texts = produce(engine, 5)
    [segment] = offloading.due()
    written = offloading.write(segment)
    broker_sql(engine, "UPDATE broker.partition SET online = false")
    cut = "SELECT broker.truncate(%s, 2, 100, '{}')"
    broker_sql(engine, cut, segment.partition_id)
    broker_sql(engine, "UPDATE broker.partition SET online = true")
    assert fetched(engine) == texts[:2]
    assert not offloading.publish(segment, written)
    assert offloading.files == set()
    assert fetched(engine) == texts[:2]
    [segment] = offloading.due()
    assert offloading.publish(segment, offloading.write(segment))
    assert fetched(engine) == texts[:2]


def test_of_two_runs_at_once_one_file_counts(engine: Engine, offloading: Offloading) -> None:
    make_topic(engine, segment_max_messages=2)
    texts = produce(engine, 3)
    [segment] = offloading.due()
    first, second = offloading.write(segment), offloading.write(segment)
    assert offloading.publish(segment, first)
    assert not offloading.publish(segment, second)
    assert offloading.files == {f"{first.file}.parquet"}
    assert fetched(engine) == texts


def test_a_file_that_is_old_is_not_named_any_more(engine: Engine, offloading: Offloading) -> None:
    make_topic(engine, segment_max_messages=2)
    produce(engine, 3)
    [segment] = offloading.due()
    written = offloading.write(segment)
    aged(offloading.directory / f"{written.file}.parquet")
    assert not offloading.publish(segment, written)
    assert offloading.files == set()


def test_what_retention_drops_leaves_its_file_to_be_swept(
    engine: Engine, offloading: Offloading
) -> None:
    make_topic(engine, segment_max_messages=2, retention_bytes=100)
    texts = produce(engine, 5)
    first, second = offloading.all()
    engine.apply_retention()
    assert engine.log.status(P0).log_start_offset >= 4
    assert fetched(engine) == texts[4:]
    aged(*(offloading.directory / f"{one.file}.parquet" for one in (first, second)))
    assert sweep(offloading.databases, offloading.store) == 2


def test_the_pipelines_own_reader_fills_references_and_refuses_a_damaged_file(
    engine: Engine, offloading: Offloading
) -> None:
    make_topic(engine, segment_max_messages=2)
    engine.produce(P0, [NewMessage(payload=b"small")])
    engine.produce(P0, [NewMessage(payload=noise(1, 4000))])
    engine.produce(P0, [NewMessage(payload=noise(2, 4000))])
    before = _entries(engine, offloading)
    [written] = offloading.all()
    references = _entries(engine, offloading)
    assert [len(body) for body in references["body"].to_pylist()[:2]] == [
        len(before["body"][0].as_py()),
        39,
    ]
    files = OffloadedFiles(str(offloading.directory))
    [filled] = files.filled(references)
    assert filled["body"].equals(before["body"])
    path = offloading.directory / f"{written.file}.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match="missing or damaged"):
        list(OffloadedFiles(str(offloading.directory)).filled(references))
    with pytest.raises(DamagedFile, match="TXNCONSOLE_OFFLOAD_DIR"):
        list(OffloadedFiles(None).filled(references))


def _entries(engine: Engine, offloading: Offloading):  # type: ignore[no-untyped-def]
    broker = engine.log.locate(P0).database.name
    with offloading.databases.reading(broker) as reading:
        [batch] = reading.batches("SELECT last_offset, body FROM broker.entry ORDER BY last_offset")
        return batch
