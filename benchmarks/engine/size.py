"""What long use costs: a system with a million ended and a hundred thousand open transactions,
beside one that is all but empty, on one server."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.engine.fill import fill_coordinator, fill_partition
from benchmarks.engine.finalizing import finalize
from benchmarks.engine.peer import MESSAGES
from benchmarks.report import Row, alternate, per_second, within
from engine import Engine
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_status import TxnAction

_TOPIC = TopicName("public", "default", "size")
_FEW = 200
_ENDED = 1_000_000
_OPEN = 100_000
_CALLS = 50


def rows(empty: Engine, full: Engine, urls: Mapping[Engine, Mapping[str, str]]) -> list[Row]:
    """Both engines are new; each row is the time of a call in the full one beside the empty one."""
    partition, other = (PartitionName(_TOPIC, number) for number in (0, 1))
    for engine, ended, open_txns in ((empty, _FEW, 0), (full, _ENDED, _OPEN)):
        engine.topics.create(_TOPIC, TopicSettings(partitions=2, segment_max_messages=10**9))
        databases, counts = urls[engine], {"ended": ended, "open_txns": open_txns}
        first = fill_coordinator(databases, engine, partition, **counts)
        fill_partition(databases, engine, partition, **counts, first=first)

    def begin(engine: Engine) -> None:
        engine.coordinator.open(owner="bench", tc_id=0)

    def commit(engine: Engine) -> None:
        """Everything from the decision to COMMITTED, in the partition with the open ones."""
        txn_id = engine.coordinator.open(owner="bench", tc_id=0).txn_id
        engine.produce(partition, MESSAGES[:1], txn_id=txn_id)
        engine.coordinator.end(txn_id, TxnAction.COMMIT)
        finalize(engine)

    questions: dict[str, Callable[[Engine], object]] = {
        "stable position": lambda engine: engine.log.status(partition),
        "fetch 100 from the start": lambda engine: engine.log.fetch(partition, 0, 100),
        "begin": begin,
        "begin, produce 1, commit, finalize": commit,
        "produce 1 to another partition": lambda engine: engine.produce(other, MESSAGES[:1]),
    }
    return [_row(what, question, empty, full) for what, question in questions.items()]


def _row(what: str, question: Callable[[Engine], object], empty: Engine, full: Engine) -> Row:
    small, large = alternate(
        lambda: per_second(lambda: question(empty), calls=_CALLS, units=1),
        lambda: per_second(lambda: question(full), calls=_CALLS, units=1),
        rounds=9,
    )
    return within(f"{what}: empty system beside 10^6 ended, 10^5 open", small, large, 1.3)
