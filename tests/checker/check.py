"""The checker: a history in, its anomalies out. Pure, and linear in the history's length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from tests.checker.ack_checks import check_subscriptions, subscriptions_of
from tests.checker.anomalies import Anomaly, Kind
from tests.checker.delivery_checks import check_deliveries
from tests.checker.fates import check_fates, fates_of
from tests.checker.history import Fault, Op
from tests.checker.log_checks import check_logs, logs_of, settle_by_reads


class Verdict(msgspec.Struct, frozen=True):
    """What a history amounts to.

    ``answers`` counts operations by "kind answer", faults by their kind.
    """

    operations: int
    answers: dict[str, int]
    faults: dict[str, int]
    anomalies: tuple[Anomaly, ...]

    @property
    def kinds(self) -> set[Kind]:
        return {anomaly.kind for anomaly in self.anomalies}

    def count(self, kind: str, answer: str = "ok") -> int:
        return self.answers.get(f"{kind} {answer}", 0)

    def __str__(self) -> str:
        counts = Counter(anomaly.kind for anomaly in self.anomalies)
        lines = [f"{self.operations} operations, {sum(self.faults.values())} faults"]
        lines += [f"{count} x {kind}" for kind, count in counts.most_common()]
        return "\n".join([*lines, *map(str, self.anomalies[:5])])


def check(history: Iterable[Op]) -> Verdict:
    """Find every contradiction in a history."""
    ops = list(history)
    fates = fates_of(ops)
    logs = logs_of(ops)
    settle_by_reads(logs, fates)
    anomalies = [
        *check_fates(ops, fates),
        *check_logs(logs, fates),
        *check_subscriptions(subscriptions_of(ops), logs, fates),
        *check_deliveries(ops),
    ]
    asked = [op for op in ops if not isinstance(op, Fault)]
    return Verdict(
        operations=len(asked),
        answers=dict(Counter(f"{type(op).__name__.lower()} {op.answer}" for op in asked)),
        faults=dict(Counter(op.kind for op in ops if isinstance(op, Fault))),
        anomalies=tuple(anomalies),
    )
