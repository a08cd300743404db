"""When the periodic tasks run. A late one is dropped: the next second brings another."""

from __future__ import annotations

from typing import Any

_EVERY_FIVE_SECONDS = (
    "apply_retention",
    "archive",
    "check_invariants",
    "move_dead_letters",
    "evaluate_alerts",
    "sample_trends",
    "deliver_alerts",
)
_EVERY_MINUTE = (
    *("drop_ended_jobs", "drop_ended_sessions", "drop_kept_answers"),
    *("schedule_runs", "trim_alerts"),
)
_EVERY_SECOND = (
    "sweep",
    "expire",
    "take_snapshots",
    "sample_positions",
    "drive_jobs",
    "launch_runs",
)

SCHEDULE: dict[str, dict[str, Any]] = (
    {
        name: {"task": f"txnconsole.{name}", "schedule": 1.0, "options": {"expires": 1.0}}
        for name in _EVERY_SECOND
    }
    | {
        "heartbeat": {"task": "txnconsole.heartbeat", "schedule": 2.0, "options": {"expires": 2.0}},
    }
    | {
        name: {"task": f"txnconsole.{name}", "schedule": 60.0, "options": {"expires": 60.0}}
        for name in _EVERY_MINUTE
    }
    | {
        name: {"task": f"txnconsole.{name}", "schedule": 5.0, "options": {"expires": 5.0}}
        for name in _EVERY_FIVE_SECONDS
    }
)
