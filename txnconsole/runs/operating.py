"""What people do with runs, for the API and the console alike: asked for rights, and recorded."""

from __future__ import annotations

from collections.abc import Mapping

from engine.model.errors import InvalidRequest
from engine.model.topic_name import TopicName
from txnconsole.access.principal import ALL_TOPICS, Principal
from txnconsole.access.roles import Permission
from txnconsole.audit.recording import Actor, Change, recorded_atomically
from txnconsole.runs import lifecycle
from txnconsole.runs.errors import RunNotPermitted
from txnconsole.runs.kinds import Kind, kind_named
from txnconsole.runs.models import PipelineRun, RunOrigin


def start(
    kind: str,
    parameters: Mapping[str, str],
    *,
    principal: Principal,
    actor: Actor,
    origin: RunOrigin,
    reason: str = "",
) -> PipelineRun:
    """Make a run for somebody.

    Raises:
        InvalidRequest: no such job, or it has no such parameters.
        RunNotPermitted: it writes messages, or is about topics, that the principal may not touch.
    """
    change = Change(actor, "run.start", f"job:{kind}", reason=reason)
    with recorded_atomically(change) as recording:
        recording.before = {"parameters": dict(parameters)}
        _check_rights(kind, parameters, principal)
        run = lifecycle.start(kind, parameters, actor=actor, origin=origin, reason=reason)
        recording.after = {"run": run.pk}
    return run


def repeat(
    run_id: int, *, principal: Principal, actor: Actor, origin: RunOrigin, reason: str = ""
) -> PipelineRun:
    """Make a run with the parameters of another.

    Raises:
        RunNotFound, InvalidRunState: there is none, or it has not ended.
        RunNotPermitted: as :func:`start`.
    """
    change = Change(actor, "run.repeat", f"run:{run_id}", reason=reason)
    with recorded_atomically(change) as recording:
        repeated = lifecycle.find(run_id)
        _check_rights(repeated.kind, repeated.parameters, principal)
        run = lifecycle.repeat(run_id, actor=actor, origin=origin, reason=reason)
        recording.after = {"run": run.pk}
    return run


def cancel(run_id: int, *, actor: Actor, reason: str = "") -> PipelineRun:
    """Have a run end.

    Raises:
        RunNotFound, InvalidRunState: there is none, or it is done or failed.
    """
    change = Change(actor, "run.cancel", f"run:{run_id}", reason=reason)
    with recorded_atomically(change) as recording:
        run = lifecycle.cancel(run_id, actor.name)
        recording.after = {"state": str(run.state), "stage": run.stage}
    return run


def lacking(kind: Kind | None, principal: Principal) -> Permission | None:
    """The permission for want of which the principal may start no run of a kind, if any; of one
    that is none any more as of any."""
    needed = [Permission.JOB_START]
    if kind is not None and kind.writes:
        needed.append(Permission.MESSAGE_PRODUCE)
    return next((one for one in needed if not principal.may(one)), None)


def _check_rights(name: str, parameters: Mapping[str, str], principal: Principal) -> None:
    kind = kind_named(name)
    if (permission := lacking(kind, principal)) is not None:
        raise RunNotPermitted(f"A run of {name} needs the permission {permission}.")
    if principal.topics == ALL_TOPICS:
        return
    topics = kind.topics(parameters)
    if not topics:
        raise RunNotPermitted(f"{name} is about all topics; this token is limited to some.")
    for topic in topics:
        if not _may_use(principal, topic):
            raise RunNotPermitted(f"This token is not for the topic {topic}.")


def _may_use(principal: Principal, topic: str) -> bool:
    try:
        return principal.may_use(TopicName.parse(topic))
    except InvalidRequest:
        return False  # A pattern names more than can be checked.
