"""Pipeline runs: Spark jobs as rows, started by anyone, watched by a supervisor of their own.

Purpose: whoever starts a job (console, API, command, schedule) makes a row; a worker's task claims
it and starts a supervisor (``manage.py supervise_run``), a process of its own, which starts the job
as another (``txnconsole.pipeline.jobs``), writes down what it tells and ends it when that is
wished. No Spark and no JVM ever runs within a worker.

States: queued -> running -> done | failed | cancelled; queued -> cancelled. ``done``: the job has
answered; ``found`` tells whether it found something. A run is never started again: to repeat it,
another is made with the same parameters (``repeats``), and every job is such that this is right.

Invariants
    At most :data:`settings.PIPELINE_RUNS` runs are running, decided under one lock.
    Only the supervisor that holds the run's ``lease`` writes to a running one; whoever finds its
    heartbeat silent for :data:`~txnconsole.runs.launching.SILENCE` (while it starts, longer)
    declares the run failed, and the supervisor, if it lives, then ends its job.
    Each run has a token of its own, for its own topics, revoked when it ends.

Lock order: the launch lock, then a run's row, then the audit log's lock.

What a crash leaves behind: a killed job is a failed run with the end of its log. A killed
supervisor takes its job with it (the job's standard input closes), and the run fails when its
heartbeat is missed. Both say what had been done; a token that nobody renews any more ends within
minutes.
"""

from __future__ import annotations
