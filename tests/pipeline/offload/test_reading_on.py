"""What readers get of a log whose segments have been offloaded: what they got before."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from engine import Engine
from engine.buffer.sidecar import SidecarLogs
from engine.log import offloaded
from engine.log.time_budget import TimeBudget
from engine.model.batch import reference
from engine.model.errors import SegmentUnreadable
from engine.model.message import EntryKind, Isolation, NewMessage, StoredMessage
from engine.model.read_position import ReadPosition
from engine.model.txn_status import TxnAction
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    broker_sql,
    end,
    finalize,
    lose_derived_state,
    make_topic,
    noise,
    open_txn,
    subscribe,
)
from tests.pipeline.offload.conftest import Offloading
from txnconsole.pipeline.offload.files import DamagedFile, OffloadedFiles

_BUFFERS = pytest.mark.parametrize("buffer", ["marker", "sidecar"])


def messages(random: Random, number: int) -> list[NewMessage]:
    """A batch whose payloads are some of them too small to be worth a reference."""
    count, size = random.randint(1, 4), random.choice((3, 400))
    return [
        NewMessage(payload=noise(number * 10 + n, size), key=f"k{n}", properties={"n": str(n)})
        for n in range(count)
    ]


def fill(engine: Engine, seed: int, steps: int = 30) -> None:
    """Interleaved transactions of both outcomes, messages outside them, one that stays open."""
    random = Random(seed)  # noqa: S311
    txns = [open_txn(engine) for _ in range(3)]
    for number in range(steps):
        chance = random.random()
        txn_id = random.choice(txns) if chance > 0.35 else None
        engine.produce(
            P0, messages(random, number), producer_name="p", sequence_id=number, txn_id=txn_id
        )
        if chance > 0.8 and txn_id is not None:
            end(engine, txn_id, random.choice(list(TxnAction)))
            txns[txns.index(txn_id)] = open_txn(engine)
    for txn_id in txns:
        end(engine, txn_id, random.choice(list(TxnAction)))
    engine.produce(P0, messages(random, steps))
    engine.produce(P0, messages(random, steps + 1), txn_id=open_txn(engine))
    engine.apply_retention()  # Compacts the sidecar's log.


def seen(engine: Engine) -> list[Any]:
    """What every kind of reader gets, in steps of several sizes."""
    answers: list[Any] = []
    for options in (
        {"isolation": Isolation.READ_COMMITTED},
        {"isolation": Isolation.READ_COMMITTED, "keep_aborted": True},
        {"isolation": Isolation.READ_UNCOMMITTED},
    ):
        for limits in ({"max_messages": 3}, {"max_messages": 50, "max_bytes": 700}):
            at = 0
            while at <= engine.log.status(P0).last_offset:
                answer = engine.log.fetch(P0, at, **limits, **options)
                answers.append(answer)
                if answer.next_offset == at:
                    break
                at = answer.next_offset
    answers.append(engine.log.browse(P0, 0, 1000))
    position: ReadPosition | None = ReadPosition(offset=0)
    while position is not None:
        answer = engine.log.fetch_in_committed_order(P0, position, 5, 2000)
        answers.append(answer)
        assert answer.next_cursor is not None
        after = ReadPosition.decode(answer.next_cursor, P0)
        position = after if after != position and answer.messages else None
    return answers


@pytest.mark.parametrize(("buffer", "seed"), [("marker", 1), ("sidecar", 2)])
def test_every_reader_gets_what_it_got_before(
    engine: Engine, offloading: Offloading, buffer: str, seed: int
) -> None:
    make_topic(engine, buffer=buffer, segment_max_messages=9)
    fill(engine, seed)
    before = seen(engine)
    written = offloading.all()
    assert len(written) > 3
    assert offloading.due() == []
    references = broker_sql(
        engine, "SELECT count(*) FROM broker.entry WHERE substr(body, 1, 1) = '\\x02'"
    )
    assert references[0].count > 5
    assert seen(engine) == before
    lose_derived_state(engine)
    assert seen(engine) == before
    assert [one for one in engine.inspect.invariants(P0).checks if not one.passed] == []


@_BUFFERS
def test_a_subscription_reads_all_of_an_offloaded_log(
    engine: Engine, offloading: Offloading, buffer: str
) -> None:
    make_topic(engine, buffer=buffer, segment_max_messages=9)
    fill(engine, 3)
    wanted = engine.log.fetch(P0, 0, 1000).messages
    offloading.all()
    subscribe(engine, initial_position="earliest")
    got: list[Any] = []
    while found := engine.receive(SUBSCRIPTION, "c1", max_messages=7):
        got += found
        engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id for message in found])
    assert [(m.message_id, m.payload) for m in got] == [(m.message_id, m.payload) for m in wanted]


def test_a_missing_file_is_said_delays_its_own_part_only_and_leaves_nothing_delivered(
    engine: Engine, offloading: Offloading
) -> None:
    make_topic(engine, segment_max_messages=2)
    payloads = [noise(number, 300) for number in range(6)]
    for payload in payloads:
        engine.produce(P0, [NewMessage(payload=payload)])
    subscribe(engine, initial_position="earliest")
    first, *_ = offloading.all()
    path = offloading.directory / f"{first.file}.parquet"
    aside = path.rename(offloading.directory.parent / path.name)
    with pytest.raises(SegmentUnreadable, match=r"is missing.*TXNCONSOLE_OFFLOAD_DIR"):
        engine.log.fetch(P0)
    assert [m.payload for m in engine.log.fetch(P0, 2).messages] == payloads[2:]
    with pytest.raises(SegmentUnreadable):
        engine.receive(SUBSCRIPTION, "c1")
    aside.rename(path)
    assert [m.payload for m in engine.log.fetch(P0).messages] == payloads
    received = engine.receive(SUBSCRIPTION, "c1")
    assert [(m.payload, m.redelivery_count) for m in received] == [(p, 0) for p in payloads]


@_BUFFERS
@pytest.mark.parametrize("reader", ["published", "committed", "browsed", "of a transaction"])
def test_who_reads_while_a_segment_is_dropped_with_its_file_gets_what_is_left(
    engine: Engine,
    offloading: Offloading,
    monkeypatch: pytest.MonkeyPatch,
    reader: str,
    buffer: str,
) -> None:
    make_topic(engine, buffer=buffer, segment_max_messages=2, retention_bytes=1)
    txn_id = open_txn(engine)
    for number in range(2):
        engine.produce(P0, [NewMessage(payload=noise(number, 300))] * 2, txn_id=txn_id)
    end(engine, txn_id, TxnAction.COMMIT)
    for payload in (b"3", b"4", b"5"):
        engine.produce(P0, [NewMessage(payload=payload)])
    SidecarLogs(engine._brokers).sweep(TimeBudget(math.inf))
    offloading.all()
    [part] = engine.coordinator.get(txn_id).partitions
    open_file = engine.log.offloaded.body

    def dropped_before(entry: Any) -> bytes:
        monkeypatch.undo()
        engine.apply_retention()
        for path in offloading.directory.iterdir():
            path.unlink()
        return open_file(entry)

    monkeypatch.setattr(engine.log.offloaded, "body", dropped_before)
    read: dict[str, Callable[[], Sequence[StoredMessage]]] = {
        "published": lambda: engine.log.fetch(P0).messages,
        "committed": lambda: (
            engine.log.fetch_in_committed_order(P0, ReadPosition(offset=0)).messages
        ),
        "browsed": lambda: engine.log.browse(P0, 0, 500).messages,
        "of a transaction": lambda: engine.inspect.transactions.messages(part, txn_id).messages,
    }
    found = [m.payload for m in read[reader]() if m.kind is EntryKind.DATA]
    assert found == ([] if reader == "of a transaction" else [b"5"])


@pytest.mark.parametrize("where", ["batches", "footer", "length"])
def test_a_damaged_file_is_noticed_and_never_handed_out(
    engine: Engine, offloading: Offloading, where: str
) -> None:
    make_topic(engine, segment_max_messages=2)
    for number in range(4):
        engine.produce(P0, [NewMessage(payload=noise(number, 3000))])
    first, *_ = offloading.all()
    path = offloading.directory / f"{first.file}.parquet"
    content = bytearray(path.read_bytes())
    if where == "length":
        del content[len(content) // 2 :]
    else:
        # A batch does not shrink: it is the most of the file, and stands in the middle of it.
        at = len(content) // 2 if where == "batches" else len(content) - 20
        content[at] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(SegmentUnreadable, match="damaged") as raised:
        engine.log.fetch(P0)
    assert raised.value.data == {"file": path.name}


def test_a_file_of_another_partition_under_the_name_is_refused_by_both_readers(
    engine: Engine, offloading: Offloading
) -> None:
    """Nothing else would tell: the messages of both have the same offsets and lengths."""
    make_topic(engine, partitions=2, segment_max_messages=2)
    for number in range(4):
        engine.produce(P0, [NewMessage(payload=noise(number, 300))])
        engine.produce(P1, [NewMessage(payload=noise(10 + number, 300))])
    files = [each.file for each in offloading.all()]
    [entry, *_] = broker_sql(
        engine, "SELECT body, last_offset FROM broker.entry WHERE substr(body, 1, 1) = '\\x02'"
    )
    own = str(reference(entry.body).file)
    [other] = [each for each in files if each != own]
    path = offloading.directory / f"{own}.parquet"
    path.write_bytes(path.with_stem(other).read_bytes())
    with pytest.raises(SegmentUnreadable, match="copy of another file"):
        engine.log.offloaded.body(entry)
    with pytest.raises(DamagedFile, match="copy of another file"):
        OffloadedFiles(str(offloading.directory)).body(entry.body, entry.last_offset)


def test_a_process_without_a_directory_says_what_to_set(
    engine: Engine, offloading: Offloading
) -> None:
    make_topic(engine, segment_max_messages=1)
    for number in range(2):
        engine.produce(P0, [NewMessage(payload=noise(number, 300))])
    offloading.all()
    engine.log.offloaded = offloaded.OffloadedFiles(None)
    with pytest.raises(SegmentUnreadable, match="set TXNCONSOLE_OFFLOAD_DIR"):
        engine.log.fetch(P0)


def test_a_truncation_into_an_offloaded_segment_leaves_the_rest_readable(
    engine: Engine, offloading: Offloading
) -> None:
    make_topic(engine, segment_max_messages=4)
    payloads = [noise(number, 300) for number in range(9)]
    for payload in payloads:
        engine.produce(P0, [NewMessage(payload=payload)])
    offloading.all()
    broker_sql(engine, "UPDATE broker.partition SET online = false")
    broker_sql(engine, "UPDATE broker.partition_live SET online = false")
    [row] = broker_sql(
        engine,
        "SELECT * FROM broker.truncate(%s, 6, 1000, '{}')",
        engine.log.locate(P0).partition_id,
    )
    assert row.result == "truncated"
    broker_sql(engine, "UPDATE broker.partition SET online = true")
    engine.produce(P0, [NewMessage(payload=b"new")])
    got = [m.payload for m in engine.log.fetch(P0).messages]
    assert got == [*payloads[:6], b"new"]
    finalize(engine)
