"""Offloading to an object store, over HTTP as S3 has it, and reading on from there."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings

from engine import Engine
from engine.log import offloaded
from engine.model.errors import SegmentUnreadable
from engine.model.message import NewMessage
from tests.engine.support import P0, broker_sql, make_topic, noise
from tests.pipeline.offload.conftest import Offloading
from tests.support import databases as test_databases
from tests.support.s3 import ObjectStore, object_store
from txnconsole.pipeline.broker.databases import Databases
from txnconsole.pipeline.offload.files import DamagedFile, OffloadedFiles
from txnconsole.pipeline.offload.segments import sweep
from txnconsole.pipeline.offload.store import Store, UnknownStore

_DAYS = 2 * 86_400


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    # Else the SDK first asks whether this is a machine of that cloud.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with object_store() as store:
        yield store


@pytest.fixture
def offloading(
    databases: test_databases.Databases, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> Offloading:
    monkeypatch.setattr(settings, "OFFLOAD_DIR", objects.uri)
    environment = {
        "BROKER_DATABASE_URLS": ",".join(databases.broker_urls),
        "TXNCONSOLE_OFFLOAD_DIR": objects.uri,
    }
    return Offloading(Databases.of({}, environment), Path("/nowhere"))


def _fill(engine: Engine) -> list[bytes]:
    make_topic(engine, segment_max_messages=2)
    payloads = [noise(number, 3000) for number in range(6)]
    for payload in payloads:
        engine.produce(P0, [NewMessage(payload=payload)])
    return payloads


def _read(engine: Engine) -> list[bytes]:
    return [message.payload for message in engine.log.fetch(P0).messages]


def test_what_is_in_an_object_store_is_read_on_by_the_engine_and_by_the_pipeline(
    engine: Engine, offloading: Offloading, objects: ObjectStore
) -> None:
    payloads = _fill(engine)
    before = _bodies(engine, offloading)
    written = offloading.all()
    assert objects.names() >= {f"{one.file}.parquet" for one in written}
    assert not [name for name in objects.names() if name.endswith(".part")]
    references = _bodies(engine, offloading)
    assert references["body"][0].as_py()[:1] == b"\x02"
    assert _read(engine) == payloads
    [filled] = OffloadedFiles(objects.uri).filled(references)
    assert filled["body"].equals(before["body"])
    rows = broker_sql(engine, "SELECT file, file_bytes FROM broker.offloaded_segment")
    for row in rows:
        assert len(objects.objects[f"bucket/offload/{row.file}.parquet"][0]) == row.file_bytes


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_damaged_or_missing_object_is_said_and_never_handed_out(
    engine: Engine, offloading: Offloading, objects: ObjectStore, damage: str
) -> None:
    _fill(engine)
    first, *_ = offloading.all()
    references = _bodies(engine, offloading)
    name = f"bucket/offload/{first.file}.parquet"
    content = bytearray(objects.objects.pop(name)[0])
    if damage == "flipped":
        content[len(content) // 2] ^= 1
    if damage != "gone":
        objects.put(name, bytes(content[: len(content) // 2] if damage == "cut" else content))
    with pytest.raises(SegmentUnreadable) as raised:
        engine.log.fetch(P0)
    assert raised.value.data == {"file": f"{first.file}.parquet"}
    assert ("is missing" in str(raised.value)) == (damage == "gone")
    with pytest.raises(DamagedFile) as refused:
        list(OffloadedFiles(objects.uri).filled(references))
    assert "secret" not in str(refused.value) + str(raised.value)


def test_unnamed_objects_are_swept_a_day_later_and_old_ones_not_named(
    engine: Engine, offloading: Offloading, objects: ObjectStore
) -> None:
    payloads = _fill(engine)
    segment = offloading.due()[0]
    lost, late = offloading.write(segment), offloading.write(segment)
    objects.age(f"{late.file}.parquet", _DAYS)
    assert not offloading.publish(segment, late)
    written = offloading.all()
    assert sweep(offloading.databases, offloading.store) == 0
    for one in (lost, *written):
        objects.age(f"{one.file}.parquet", _DAYS)
    assert sweep(offloading.databases, offloading.store) == 1
    kept = {name for name in objects.names() if name.endswith(".parquet")}
    assert kept == {f"{one.file}.parquet" for one in written}
    assert _read(engine) == payloads


def test_a_file_uri_is_a_directory(tmp_path: Path) -> None:
    store = pickle.loads(pickle.dumps(Store(f"file://{tmp_path}/below")))  # noqa: S301
    assert store.listed() == []
    with store.writing("a.part") as opened:
        opened.write(b"abc")
    store.rename("a.part", "a")
    assert (tmp_path / "below" / "a").read_bytes() == b"abc"
    assert [(each.name, store.size(each.name)) for each in store.listed()] == [("a", 3)]
    assert abs(store.now() - store.modified("a")) < 60
    store.delete("a")
    with pytest.raises(FileNotFoundError):
        store.modified("a")


def test_a_location_of_no_known_kind_is_named_without_what_may_be_secret(
    engine: Engine, offloading: Offloading
) -> None:
    _fill(engine)
    offloading.all()
    location = "ftp://user:secret@host/x"
    with pytest.raises(
        UnknownStore, match=r"TXNCONSOLE_OFFLOAD_DIR .* begins with ftp://"
    ) as named:
        Store(location).listed()
    with pytest.raises(UnknownStore):
        list(OffloadedFiles(location).filled(_bodies(engine, offloading)))
    engine.log.offloaded = offloaded.OffloadedFiles(location)
    with pytest.raises(SegmentUnreadable, match="TXNCONSOLE_OFFLOAD_DIR, ftp://…, names") as said:
        engine.log.fetch(P0)
    assert "secret" not in str(named.value) + str(said.value)


def test_a_store_that_is_away_is_told_from_a_missing_file(
    engine: Engine, offloading: Offloading, tmp_path: Path
) -> None:
    _fill(engine)
    offloading.all()
    away = "s3://key:secret@bucket/x?scheme=http&endpoint_override=127.0.0.1:1&region=r"
    engine.log.offloaded = offloaded.OffloadedFiles(away)
    with pytest.raises(SegmentUnreadable, match="its store cannot be reached") as said:
        engine.log.fetch(P0)
    assert "secret" not in str(said.value)


def test_the_files_of_an_object_store_are_looked_at_and_one_that_is_away_is_not_judged(
    engine: Engine, offloading: Offloading, objects: ObjectStore
) -> None:
    _fill(engine)
    first, second = offloading.all()[:2]
    names = [f"{first.file}.parquet", f"{second.file}.parquet"]
    files = offloaded.OffloadedFiles(objects.uri)
    assert [files.fault(f"{each.file}.parquet", each.file_bytes) for each in (first, second)] == [
        None,
        None,
    ]
    copy = objects.objects[f"bucket/offload/{names[1]}"][0]
    objects.put(f"bucket/offload/{names[0]}", copy)
    assert "copy of another file" in str(files.fault(names[0], len(copy)))
    del objects.objects[f"bucket/offload/{names[0]}"]
    assert files.fault(names[0], len(copy)) == "It is missing."
    away = "s3://key:secret@bucket/x?scheme=http&endpoint_override=127.0.0.1:1&region=r"
    with pytest.raises(SegmentUnreadable, match="cannot be asked") as said:
        offloaded.OffloadedFiles(away).fault(names[0], len(copy))
    assert "secret" not in str(said.value)


def _bodies(engine: Engine, offloading: Offloading):  # type: ignore[no-untyped-def]
    broker = engine.log.locate(P0).database.name
    databases = replace(offloading.databases, offload_directory=None)
    with databases.reading(broker) as reading:
        [batch] = reading.batches("SELECT last_offset, body FROM broker.entry ORDER BY last_offset")
        return batch
