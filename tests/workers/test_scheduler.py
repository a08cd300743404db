"""When beat sends what."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from celery.beat import ScheduleEntry
from celery.schedules import schedule
from django.conf import settings

from txnconsole.celery import app
from txnconsole.workers import scheduler
from txnconsole.workers.schedule import SCHEDULE
from txnconsole.workers.scheduler import IntervalScheduler


class Clocked:
    """A scheduler whose clock a test sets, and what it has sent, by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, intervals: dict[str, float]) -> None:
        self.now = 1000.0
        self.sent: Counter[str] = Counter()
        self.waiting: Counter[str] = Counter()
        monkeypatch.setattr(scheduler, "queued", lambda queue: self.waiting[queue])
        monkeypatch.setattr(scheduler, "monotonic", lambda: self.now)
        entries = {
            name: ScheduleEntry(name=name, task=name, schedule=schedule(timedelta(seconds=each)))
            for name, each in intervals.items()
        }
        monkeypatch.setattr(IntervalScheduler, "setup_schedule", lambda _: None)
        monkeypatch.setattr(
            IntervalScheduler, "apply_entry", lambda _, entry, producer: self.send(entry)
        )
        monkeypatch.setattr(IntervalScheduler, "producer", None)
        self._scheduler = IntervalScheduler(app, schedule=entries)

    def send(self, entry: ScheduleEntry) -> None:
        self.sent[entry.name] += 1

    def sleep(self, seconds: float) -> float:
        self.now += seconds
        return self._scheduler.tick()


def test_each_task_is_sent_once_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    beat = Clocked(monkeypatch, {"often": 1.0, "seldom": 5.0})
    wait, ticks = beat.sleep(0.0), 0
    assert beat.sent == {}
    while beat.now < 1059.5:
        wait = beat.sleep(wait)
        ticks += 1
    assert beat.sent == {"often": 60, "seldom": 12}
    assert ticks == 60


def test_what_was_missed_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    beat = Clocked(monkeypatch, {"often": 1.0})
    assert beat.sleep(7.25) == pytest.approx(0.75)
    assert beat.sent == {"often": 1}
    assert beat.sleep(0.75) == pytest.approx(1.0)
    assert beat.sent == {"often": 2}


def test_nothing_is_added_to_a_queue_that_nobody_empties(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a worker of the queue for pipeline runs Redis was full after weeks, without any
    worker after days."""
    beat = Clocked(monkeypatch, {"txnconsole.sweep": 1.0, "txnconsole.launch_runs": 1.0})
    beat.waiting["pipeline"] = 1000
    beat.sleep(1.0)
    assert beat.sent == {"txnconsole.sweep": 1}
    beat.waiting.update(pipeline=-1, celery=1000)
    beat.sleep(1.0)
    assert beat.sent == {"txnconsole.sweep": 1, "txnconsole.launch_runs": 1}


def test_beat_runs_it_with_the_whole_schedule() -> None:
    assert settings.CELERY_BEAT_SCHEDULER.split(":") == [scheduler.__name__, "IntervalScheduler"]
    assert SCHEDULE.keys() <= IntervalScheduler(app)._due_at.keys()
