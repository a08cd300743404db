"""What beat runs: everything that is due is sent, then it sleeps until the next is.

Celery's own scheduler wakes up for each task, and compares the whole schedule with itself each
time, in case it has changed: half of what beat cost. This one knows nothing but the fixed intervals
of ``CELERY_BEAT_SCHEDULE``, by a clock that nobody sets.
"""

from __future__ import annotations

from time import monotonic
from typing import Any, cast

from celery.beat import ScheduleEntry, Scheduler
from django.conf import settings

from txnconsole.queue.connection import TASKS, queued

#: While so many wait in a queue, nobody takes any there, and what is late is dropped in the end:
#: Redis keeps it until then, a gigabyte in a day.
_MOST_WAITING = 1000


class IntervalScheduler(Scheduler):
    """Sends each task once an interval, for the first time when one has passed.

    What could not be sent in time is sent once, however many intervals have passed. Nothing is
    added to a queue that no worker empties.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        now = monotonic()
        self._due_at = {name: now + _interval(entry) for name, entry in self.schedule.items()}

    def tick(self, *_: object, **__: object) -> float:
        """Send what is due; answers in how many seconds the next is."""
        now = monotonic()
        waiting: dict[str, int] = {}
        for name, due_at in self._due_at.items():
            if due_at <= now:
                entry = self.schedule[name]
                queue = _queue(entry)
                if queue not in waiting:
                    waiting[queue] = queued(queue) or 0
                if waiting[queue] < _MOST_WAITING:
                    self.apply_entry(entry, producer=self.producer)
                interval = _interval(entry)
                self._due_at[name] = due_at + interval * (1 + (now - due_at) // interval)
        return max(0.0, min(self._due_at.values()) - monotonic())


def _queue(entry: ScheduleEntry) -> str:
    return str(settings.CELERY_TASK_ROUTES.get(entry.task or "", {}).get("queue", TASKS))


def _interval(entry: ScheduleEntry) -> float:
    return float(cast("Any", entry.schedule).run_every.total_seconds())
