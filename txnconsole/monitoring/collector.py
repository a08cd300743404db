"""What has been observed, as Prometheus's families.

Names are those of reference/peers.md §4.5: seconds, ``_total`` for what only grows, true
histograms. A figure of a database that does not answer is left out, so that it is absent and not
wrong. Labels that are known beforehand are there from the start with 0, so that a rate sees the
first increase.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from django.conf import settings
from prometheus_client import Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

import engine
from engine.inspect.standing import BrokerStanding, CoordinatorsStanding
from engine.model.figures import BOUNDS, Figure, FigureName, Tally
from engine.model.txn_status import DECIDED, EndReason, TxnStatus
from txnconsole.monitoring.observation import Observation, observe

#: Coordinators that are told one by one; those above are summed up under "other".
_COORDINATORS = 512
_OUTCOMES = ("committed", "aborted")
#: The tasks that run when something asks for them, and not by the clock.
ASKED_FOR = ("finalize", "recover", "count_killed")


class ProductCollector(Collector):
    """How the product stands and what it has done, at the moment of asking."""

    def collect(self) -> Iterable[Metric]:
        """Look, and put what was seen into families; never raises for a part that is away."""
        observation = observe()
        yield from _parts(observation)
        if observation.standing.coordinators is not None:
            yield from _transactions(observation.standing.coordinators)
        if observation.figures is not None:
            yield from _counted(observation.figures)
        yield from _brokers(
            {name: seen for name, seen in observation.standing.brokers.items() if seen is not None}
        )


def _parts(observation: Observation) -> Iterator[Metric]:
    """Which parts answer."""
    info = _gauge("build_info", "The version that runs; always 1.", "version")
    info.add_metric([engine.__version__], 1)
    yield info
    up = _gauge("database_up", "Whether a database answers.", "database")
    up.add_metric(["coordinator"], observation.standing.coordinators is not None)
    for name, broker in observation.standing.brokers.items():
        up.add_metric([name], broker is not None)
    yield up
    yield _single("queue_up", "Whether the queue answers.", observation.queued is not None)
    if observation.queued is not None:
        yield _single("queue_length", "Tasks that wait in the queue.", observation.queued)
    if observation.workers_seen is not None:
        yield _single(
            "worker_up",
            "Whether a worker has carried out a task within ten seconds.",
            observation.workers_seen,
        )


def _transactions(seen: CoordinatorsStanding) -> Iterator[Metric]:
    opened = _gauge("txn_open", "Open transactions.", "coordinator_id")
    created = _counter("txn_created", "Transactions opened.", "coordinator_id")
    open_by_id: Counter[str] = Counter()
    issued_by_id: Counter[str] = Counter()
    for tc_id, issued in seen.issued.items():
        label = str(tc_id) if tc_id < _COORDINATORS else "other"
        issued_by_id[label] += issued
        open_by_id[label] += seen.live.get((tc_id, TxnStatus.OPEN), 0)
    for label, issued in issued_by_id.items():
        opened.add_metric([label], open_by_id[label])
        created.add_metric([label], issued)
    yield opened
    yield created
    finalizing = _gauge("txn_finalizing", "Decided transactions that have not ended.", "status")
    for status in DECIDED:
        live = sum(count for (_, found), count in seen.live.items() if found is status)
        finalizing.add_metric([status.value], live)
    yield finalizing
    yield _single("txn_overdue", "Open transactions past their deadline.", seen.overdue)
    yield _single(
        "txn_oldest_open_age_seconds",
        "For how long the oldest open transaction has been open.",
        seen.oldest_open_seconds,
    )
    yield _single(
        "txn_oldest_decided_age_seconds",
        "For how long the oldest decision has waited to be carried out.",
        seen.oldest_decided_seconds,
    )
    yield _single("invariants_broken", "Checks that have found counter-examples.", seen.broken)


def _counted(figures: Tally) -> Iterator[Metric]:
    by_name: dict[FigureName, dict[str, Figure]] = {name: {} for name in FigureName}
    for figure in figures:
        by_name[figure.name][figure.label] = figure
    yield from _ends(by_name[FigureName.EXECUTION])
    yield from _carried_out(by_name)
    conflicts = by_name[FigureName.PENDING_ACK_CONFLICTS]
    yield _counter(
        "pending_ack_conflicts",
        "Acknowledgements refused because of another one.",
        value=sum(figure.count for figure in conflicts.values()),
    )
    actions = _counter("operator_actions", "Changes made over API and console.", "action", "result")
    for label, figure in by_name[FigureName.OPERATOR_ACTIONS].items():
        actions.add_metric(label.split("/", 1), figure.count)
    yield actions
    tasks = _histogram("task_seconds", "Duration of workers' tasks.", "task", "result")
    known = sorted((*settings.CELERY_BEAT_SCHEDULE, *ASKED_FOR))
    expected = [f"{task}/{result}" for task in known for result in ("done", "failed")]
    _add_histograms(tasks, by_name[FigureName.TASKS], expected)
    yield tasks
    killed = _counter("tasks_killed", "Workers' tasks whose process was killed.", "task")
    counts = {task: figure.count for task, figure in by_name[FigureName.TASKS_KILLED].items()}
    for task, count in {**dict.fromkeys(known, 0), **counts}.items():
        killed.add_metric([task], count)
    yield killed


def _ends(executions: Mapping[str, Figure]) -> Iterator[Metric]:
    """How many transactions ended, why, and after how long; by ``outcome/reason``."""
    ends = {tuple(label.split("/", 1)): figure for label, figure in executions.items()}
    reasons = Counter({reason.value: 0 for reason in EndReason})
    for (outcome, reason), figure in ends.items():
        if outcome == "aborted":
            reasons[reason] += figure.count
    committed = sum(figure.count for (outcome, _), figure in ends.items() if outcome == "committed")
    aborted = _counter("txn_aborted", "Transactions that became ABORTED.", "reason")
    for reason, count in reasons.items():
        aborted.add_metric([reason], count)
    yield _counter("txn_committed", "Transactions that became COMMITTED.", value=committed)
    yield aborted
    yield _counter(
        "txn_timeout", "Transactions that their deadline aborted.", value=reasons[EndReason.TIMEOUT]
    )

    execution = _histogram(
        "txn_execution_seconds", "From opening to the decision, of ended transactions.", "outcome"
    )
    by_outcome = Tally(
        Figure(figure.name, outcome, figure.count, figure.seconds, figure.buckets)
        for (outcome, _), figure in ends.items()
    )
    _add_histograms(execution, {figure.label: figure for figure in by_outcome}, _OUTCOMES)
    yield execution


def _carried_out(by_name: Mapping[FigureName, Mapping[str, Figure]]) -> Iterator[Metric]:
    """How long decisions took until they were carried out, and how often that was tried again."""
    finalize = _histogram(
        "txn_finalize_seconds", "From the decision to COMMITTED or ABORTED.", "outcome"
    )
    _add_histograms(finalize, by_name[FigureName.FINALIZE], _OUTCOMES)
    yield finalize
    visible = _histogram(
        "visible_latency_seconds",
        "From the decision to commit until a partition had the marker.",
    )
    _add_histograms(visible, by_name[FigureName.VISIBLE], ("",))
    yield visible
    retries = _counter(
        "finalize_retries", "Participants that had to be asked again.", "participant_kind"
    )
    kinds = by_name[FigureName.FINALIZE_RETRIES]
    for kind in ("partition", "subscription"):
        retries.add_metric([kind], kinds[kind].count if kind in kinds else 0)
    yield retries


def _brokers(brokers: dict[str, BrokerStanding]) -> Iterator[Metric]:
    late = _gauge("txn_late_partitions", "Partitions with a transaction that is too old.", "broker")
    held = _gauge("partitions_held_back", "Partitions with hidden messages.", "broker")
    away = _gauge("partitions_unavailable", "Partitions that serve nothing.", "broker", "state")
    for name, seen in brokers.items():
        late.add_metric([name], seen.late_partitions)
        held.add_metric([name], seen.held_back)
        away.add_metric([name, "recovering"], seen.recovering)
        away.add_metric([name, "offline"], seen.offline)
    yield from (late, held, away)
    one_by_one = settings.METRICS_BY_TOPIC
    yield from _positions(brokers, one_by_one=one_by_one)
    yield _pending_acks(brokers, one_by_one=one_by_one)


def _positions(brokers: dict[str, BrokerStanding], *, one_by_one: bool) -> Iterator[Metric]:
    """How partitions stand: each by itself, or those of a broker together."""
    partition = ("topic", "partition") if one_by_one else ()
    for attribute, metric, text in (
        ("lag_messages", "stable_position_lag_messages", "Offsets above the stable position."),
        ("blocked_seconds", "stable_position_blocked_seconds", "Age of what holds it back."),
        ("aborted_txns", "tb_aborts_map_size", "Aborted transactions that are remembered."),
        ("snapshot_seconds", "tb_snapshot_age_seconds", "Age of changes without a snapshot."),
    ):
        family = _gauge(metric, text, "broker", *partition)
        for name, seen in brokers.items():
            if not one_by_one:
                family.add_metric([name], getattr(seen, attribute))
            for each in seen.partitions:
                topic, number = str(each.partition.topic), str(each.partition.number)
                family.add_metric([name, topic, number], getattr(each, attribute))
        yield family


def _pending_acks(brokers: dict[str, BrokerStanding], *, one_by_one: bool) -> Metric:
    subscription = ("topic", "subscription") if one_by_one else ()
    pending = _gauge(
        "pending_ack_open", "Transactions that hold acknowledgements.", "broker", *subscription
    )
    for name, seen in brokers.items():
        if not one_by_one:
            pending.add_metric([name], seen.pending_acks)
        for subscribed, count in seen.pending_acks_of.items():
            pending.add_metric([name, str(subscribed.topic), subscribed.name], count)
    return pending


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"txnconsole_{name}", text, labels=labels)


def _single(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"txnconsole_{name}", text, value=value)


def _counter(name: str, text: str, *labels: str, value: float | None = None) -> CounterMetricFamily:
    return CounterMetricFamily(f"txnconsole_{name}", text, value=value, labels=labels or None)


def _histogram(name: str, text: str, *labels: str) -> HistogramMetricFamily:
    return HistogramMetricFamily(f"txnconsole_{name}", text, labels=labels)


def _add_histograms(
    family: HistogramMetricFamily, figures: Mapping[str, Figure], expected: Iterable[str]
) -> None:
    """Add each figure under its label's parts, and nothing yet under those that are expected."""
    none = (0,) * (len(BOUNDS) + 1)
    for label in {**dict.fromkeys(expected), **figures}:
        figure = figures.get(label) or Figure(FigureName.TASKS, label, 0, 0.0, none)
        buckets = [
            ("+Inf" if bound == float("inf") else str(bound), count)
            for bound, count in figure.cumulative()
        ]
        family.add_metric(label.split("/", 1) if label else [], buckets, figure.seconds)
