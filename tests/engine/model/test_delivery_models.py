"""The three models against small histories, and against what the engine itself answers."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from engine import Engine
from engine.model.delivery_models import DeliveryModel, HistoryEntry, Run, compare, history_of
from engine.model.message import EntryKind
from engine.model.read_position import ReadPosition
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.engine.support import batch, finalize, open_txn, texts

_T0 = datetime(2026, 1, 1, tzinfo=UTC)
A, B = TxnID(0, 1), TxnID(0, 2)


def history(script: str) -> list[HistoryEntry]:
    """``a`` ``b`` write in A, B; ``A`` ``B`` commit, ``X`` ``Y`` abort them; ``.`` plain. An entry
    takes one offset and a second."""
    kinds = {
        "a": (EntryKind.DATA, A),
        "b": (EntryKind.DATA, B),
        ".": (EntryKind.DATA, None),
        "A": (EntryKind.TXN_COMMIT, A),
        "B": (EntryKind.TXN_COMMIT, B),
        "X": (EntryKind.TXN_ABORT, A),
        "Y": (EntryKind.TXN_ABORT, B),
    }
    return [
        HistoryEntry(
            first_offset=n,
            last_offset=n,
            kind=kinds[letter][0],
            txn_id=kinds[letter][1],
            at=_T0 + timedelta(seconds=n),
        )
        for n, letter in enumerate(script)
    ]


def by_model(runs: tuple[Run, ...]) -> dict[DeliveryModel, Run]:
    return {run.model: run for run in runs}


def test_a_blocked_history_waits_in_one_model_only() -> None:
    runs = by_model(compare(history("ab.BA")))
    marker, ordered = runs[DeliveryModel.MARKER], runs[DeliveryModel.COMMITTED_ORDER]
    assert marker.steps == ((), (), (), (), (0, 1, 2))
    assert ordered.steps == ((), (), (2,), (1,), (0,))
    assert marker.longest_ms == 4000
    assert (marker.waited_ms, ordered.waited_ms) == (4000 + 3000 + 2000, 0 + 2000 + 4000)
    assert (marker.buffered, ordered.buffered) == (3, 2)
    assert runs[DeliveryModel.SIDECAR].positions == {2: 0, 1: 1, 0: 2}


def test_what_aborts_is_never_given_and_what_is_undecided_is_told_apart() -> None:
    for run in compare(history("a.bXb")):
        assert run.aborted == 1
        assert run.undecided == 2
        assert [offset for step in run.steps for offset in step] == [1]
        assert run.hidden == 0


def test_a_transaction_from_before_the_history_holds_it_until_its_marker() -> None:
    runs = by_model(compare(history("..A."), {A: -5}))
    assert runs[DeliveryModel.MARKER].steps == ((), (), (0, 1), (3,))
    assert runs[DeliveryModel.COMMITTED_ORDER].steps == ((0,), (1,), (), (3,))
    still = by_model(compare(history("..."), {B: -1}))[DeliveryModel.MARKER]
    assert (still.delivered, still.hidden, still.mean_wait_ms) == (0, 3, None)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_engine_gives_what_the_models_say(engine: Engine, seed: int) -> None:
    """After every step the readers of a marker topic, in both orders, and of a sidecar topic, have
    what the models say; the same things happen to both topics."""
    rng = random.Random(seed)  # noqa: S311
    marker, aside = (
        PartitionName(TopicName("public", "default", name), 0) for name in ("marker", "aside")
    )
    engine.topics.create(marker.topic, TopicSettings())
    engine.topics.create(aside.topic, TopicSettings(buffer=BufferKind.SIDECAR))
    open_txns: list[TxnID] = []
    written: set[TxnID] = set()
    number = 0
    for _ in range(14):
        choice = rng.random()
        if choice < 0.6 or not open_txns:
            if len(open_txns) < 3 and rng.random() < 0.6:
                open_txns.append(open_txn(engine))
            txn = rng.choice([None, *open_txns])
            payloads = [str(number + n) for n in range(rng.randint(1, 3))]
            number += len(payloads)
            for partition in (marker, aside):
                engine.produce(partition, batch(*payloads), txn_id=txn)
            if txn:
                written.add(txn)
        else:
            txn = open_txns.pop(rng.randrange(len(open_txns)))
            engine.coordinator.end(txn, rng.choice([TxnAction.COMMIT, TxnAction.ABORT]))
            finalize(engine)
        whole = engine.log.browse(marker, 0, 1000).messages
        payload = {m.offset: m.payload.decode() for m in whole}
        runs = by_model(compare(history_of(whole)))
        told = {
            model: [payload[offset] for step in run.steps for offset in step]
            for model, run in runs.items()
        }
        assert texts(engine.log.fetch(marker).messages) == told[DeliveryModel.MARKER]
        ordered = engine.log.fetch_in_committed_order(marker, ReadPosition(offset=0))
        assert texts(ordered.messages) == told[DeliveryModel.COMMITTED_ORDER]
        beside = engine.log.fetch(aside).messages
        assert texts(beside) == told[DeliveryModel.SIDECAR]
        by_payload = {text: offset for offset, text in payload.items()}
        positions = runs[DeliveryModel.SIDECAR].positions
        assert [positions[by_payload[text]] for text in texts(beside)] == [
            message.offset for message in beside
        ]
    assert written
