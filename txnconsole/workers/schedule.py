"""When the periodic tasks run. A late one is dropped: the next second brings another."""

from __future__ import annotations

from typing import Any

#: The tasks by the seconds between two runs.
_EVERY: dict[float, tuple[str, ...]] = {
    1.0: (
        *("sweep", "expire", "take_snapshots", "sample_positions"),
        *("drive_jobs", "launch_runs"),
    ),
    2.0: ("heartbeat",),
    5.0: (
        *("apply_retention", "archive", "check_invariants", "move_dead_letters"),
        *("evaluate_alerts", "sample_trends", "deliver_alerts"),
    ),
    60.0: (
        *("drop_ended_jobs", "drop_ended_sessions", "drop_kept_answers"),
        *("schedule_runs", "trim_alerts"),
    ),
}

SCHEDULE: dict[str, dict[str, Any]] = {
    name: {"task": f"txnconsole.{name}", "schedule": seconds, "options": {"expires": seconds}}
    for seconds, names in _EVERY.items()
    for name in names
}
