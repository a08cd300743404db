"""How findings about transactions are written on a page."""

from __future__ import annotations

from django import template

from engine.inspect.impact import Impact
from engine.model.agreement import Discord, Says
from engine.model.hanging import HangingClass
from engine.model.timeout_advice import Fit
from txnconsole.access.principal import Principal
from txnconsole.jobs.models import Job
from txnconsole.jobs.work import JobState
from txnconsole.quantities import count

register = template.Library()

_DISCORDS = {
    Discord.OPPOSITE: "it carries the other outcome",
    Discord.TWICE: "it carries an outcome more than once",
    Discord.EARLY: "it has ended what is not decided",
    Discord.MISSING: "it has carried out nothing, and should have",
    Discord.STILL_OPEN: "it holds open what is recorded as carried out",
    Discord.DATA_AFTER_MARKER: "messages joined after the end",
    Discord.RECORDED_OTHERWISE: "another outcome is recorded for it",
    Discord.UNREGISTERED: "it holds something, and is not listed",
}
_SAYS = {
    Says.NOTHING: "holds nothing",
    Says.GONE: "has been deleted",
    Says.UNAVAILABLE: "cannot be asked",
}
_HANGING = {
    HangingClass.ORPHAN: ("Orphan", "No coordinator has ever issued it."),
    HangingClass.UNREGISTERED: (
        "Unregistered",
        "Open here, and its coordinator does not list this participant: its end would not come.",
    ),
    HangingClass.STALE: (
        "Stale",
        "The participant has recorded its end, and holds it open all the same.",
    ),
    HangingClass.MISSED_COMMIT: ("Missed commit", "Committed, and not carried out here."),
    HangingClass.MISSED_ABORT: ("Missed abort", "Aborted, and not carried out here."),
    HangingClass.STUCK_FINALIZE: (
        "Stuck finishing",
        "Decided, and a participant keeps it waiting.",
    ),
    HangingClass.OVERDUE: ("Overdue", "Open past its own deadline."),
    HangingClass.LATE: ("Late", "Open for long, within its deadline: nothing is wrong."),
}
_FITS = {
    Fit.FITS: "Fits",
    Fit.TOO_LONG: "Too long",
    Fit.TOO_SHORT: "Too short",
    Fit.TOO_FEW: "Too few to tell",
}


@register.filter
def commits_visible(impact: Impact) -> int:
    """How many messages would become readable by a commit, in all partitions."""
    return sum(part.messages_visible for part in impact.partitions)


@register.filter
def may_abort(principal: Principal, owner: str | None) -> bool:
    """Whether the user may abort a transaction of this owner."""
    return principal.may_abort(owner)


@register.filter
def discord(value: Discord) -> str:
    return _DISCORDS[value]


@register.filter
def says(value: Says) -> str:
    return _SAYS.get(value, value.value.lower())


@register.filter
def hanging_name(value: HangingClass) -> str:
    return _HANGING[value][0]


@register.filter
def hanging_meaning(value: HangingClass) -> str:
    return _HANGING[value][1]


@register.filter
def fit(value: Fit) -> str:
    return _FITS[value]


@register.filter
def job_state(job: Job) -> str:
    """A job's state; of one that has come to its end, how much of it failed."""
    state = JobState(job.state).label
    if job.failed and job.state in (JobState.DONE, JobState.CANCELLED):
        return f"{state}, {count(job.failed)} failed"
    return state
