"""What of a run is for whom."""

from __future__ import annotations

from txnconsole.access.principal import Principal
from txnconsole.access.roles import Permission
from txnconsole.runs.models import PipelineRun

#: In place of what a job has said of its end.
WITHHELD = "What the job said may quote messages: it is for those who may read their payloads."


def as_shown_to(principal: Principal, run: PipelineRun) -> PipelineRun:
    """The run, without the job's own words for whoever may not read payloads: Spark's errors quote
    the value that they are about. What the product itself says of a run that was lost stays. The
    row in the database is left as it is."""
    if not principal.may(Permission.PAYLOAD_READ):
        run.log_tail = ""
        if run.exit_code is not None and run.error:
            run.error = WITHHELD
    return run
