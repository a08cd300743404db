"""What the pipeline pages show: jobs, runs, the newest audit, the queue and its workers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, QuerySet

from engine.model.transaction import TransactionFilter
from engine.model.txn_status import DECIDED
from txnconsole.console.live.feed import digest
from txnconsole.console.newer import MOST
from txnconsole.console.reads import Region, region
from txnconsole.console.slices import page_of
from txnconsole.console.transaction_views import COUNTED
from txnconsole.enginedb.wiring import engine
from txnconsole.jobs.work import UNFINISHED, JobState
from txnconsole.queue import connection, heartbeat
from txnconsole.runs.kinds import KINDS, Kind, schedule_faults
from txnconsole.runs.models import PipelineRun

PAGE_ROWS = 30
#: A run is fresh enough to change a page that shows it for so many of the newest.
_WATCHED = 50
_DAY = timedelta(days=1)
#: What expiry and finalization still have to do.
_DUE = (
    TransactionFilter(overdue=True),
    TransactionFilter(statuses=DECIDED),
)


@dataclass(frozen=True, slots=True)
class Job:
    """A kind of run, with its newest run and how often it is started by the schedule."""

    kind: Kind
    newest: PipelineRun | None
    every: timedelta | None


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """A periodic task of the workers: its last run (None: unknown), and how many items wait for it,
    counted up to :data:`COUNTED`."""

    name: str
    does: str
    last_ms: int | None
    waiting: Region[int]


@dataclass(frozen=True, slots=True)
class Overview:
    """What the page ``/pipeline`` shows. ``audits`` are the newest audit that is done and, where
    that is limited, the newest of all topics: a limited one says nothing of the others."""

    jobs: Sequence[Job]
    running: int
    queued: int
    failed_today: int
    audits: Sequence[PipelineRun]
    #: None when Redis does not answer.
    tasks_waiting: int | None
    workers_seen: bool | None
    tasks: Sequence[PeriodicTask]
    #: Scheduled kinds that cannot be started, with the reason.
    schedule_faults: Mapping[str, str]
    now: datetime


@dataclass(frozen=True, slots=True)
class RunList:
    """Runs up to the number ``known``, newest first. ``below`` is where the next page begins, None
    at the end; ``newer`` is how many runs have been started since."""

    runs: Sequence[PipelineRun]
    below: int | None
    known: int
    newer: int


def read_overview(now: datetime) -> Overview:
    """Read everything that the page ``/pipeline`` shows at the moment ``now``."""
    unfinished = PipelineRun.objects.filter(state__in=UNFINISHED)
    failed = PipelineRun.objects.filter(state=JobState.FAILED, ended_at__gt=now - _DAY)
    counts = dict(_by_state(unfinished).union(_by_state(failed), all=True))
    audits = _listed().filter(kind="audit", state=JobState.DONE)
    of_all = audits.filter(parameters={})
    newest = _newest()
    return Overview(
        jobs=[Job(kind, newest.get(name), _every(name)) for name, kind in KINDS.items()],
        running=counts.get(JobState.RUNNING, 0),
        queued=counts.get(JobState.QUEUED, 0),
        failed_today=counts.get(JobState.FAILED, 0),
        audits=list(audits[:1].union(of_all[:1]).order_by("-id")),
        tasks_waiting=connection.queued(),
        workers_seen=heartbeat.workers_seen(),
        tasks=_tasks(),
        schedule_faults=schedule_faults(settings.PIPELINE_SCHEDULE),
        now=now,
    )


def _by_state(runs: QuerySet[PipelineRun]) -> QuerySet[PipelineRun, tuple[str, int]]:
    return runs.order_by().values_list("state").annotate(Count("id"))


def _newest() -> dict[str, PipelineRun]:
    """The newest run of each kind, in one query."""
    first, *others = (_listed().filter(kind=kind)[:1] for kind in KINDS)
    return {run.kind: run for run in first.union(*others, all=True)}


def _tasks() -> list[PeriodicTask]:
    last = heartbeat.last_runs()
    late = region(lambda: len(engine().inspect.late_snapshots(COUNTED).late))
    counted = region(lambda: engine().coordinator.count_each(_DUE, limit=COUNTED))
    overdue, decided = (
        Region(error=counted.error) if counted.value is None else Region(counted.value[place][0])
        for place in range(len(_DUE))
    )
    return [
        PeriodicTask(name, does, last.get(name), waiting)
        for name, does, waiting in (
            ("expire", "Aborts open transactions past their deadline", overdue),
            ("sweep", "Carries out what is decided and was not yet", decided),
            ("take_snapshots", "Snapshots partitions that changed since their last one", late),
        )
    ]


def read_runs(*, kind: str, state: str, below: int | None, above: int | None = None) -> RunList:
    """Runs of a kind and state (empty: any), below a number.

    Args:
        above: the newest run when the page was first loaded; later ones are counted, not
            listed.
    """
    runs = _listed()
    if kind:
        runs = runs.filter(kind=kind)
    if state:
        runs = runs.filter(state=state)
    newest = 0 if below is not None else newest_run()
    known = newest if above is None else above
    newer = runs.filter(id__gt=known)[: MOST + 1].count() if known < newest else 0
    runs = runs.filter(id__lt=below) if below is not None else runs.filter(id__lte=known)
    shown, last = page_of(runs, PAGE_ROWS)
    return RunList(shown, last.pk if last else None, known, newer)


def newest_run() -> int:
    """The number of the newest run; 0 when there is none."""
    return PipelineRun.objects.order_by("-id").values_list("id", flat=True).first() or 0


def read_position() -> str:
    """A digest that changes with anything that the pages show."""
    newest = PipelineRun.objects.order_by("-id").values_list(
        "id", "state", "stage", "stage_done", "figures", "cancel_requested_by"
    )
    return digest([list(row) for row in newest[:_WATCHED]])


def pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _listed() -> QuerySet[PipelineRun]:
    """Runs without the columns that a list does not show."""
    return PipelineRun.objects.order_by("-id").defer("result", "log_tail")


def _every(kind: str) -> timedelta | None:
    every: timedelta | None = settings.PIPELINE_SCHEDULE.get(kind)
    return every
