"""What operators do to a partition. Each operation asks first, needs a reason, and is in the audit
log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django import forms
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from engine.model.message import MAX_OFFSET
from engine.model.partition import PartitionState, PartitionStatus
from engine.model.topic_name import PartitionName, TopicName
from txnconsole.access.roles import Permission
from txnconsole.audit.recording import Actor
from txnconsole.console.confirmation import Confirmation, Outcome, ReasonForm, ask
from txnconsole.console.inputs import NUMBER
from txnconsole.console.page import ConsoleRequest, actor_of, page
from txnconsole.console.reads import region
from txnconsole.enginedb.wiring import engine
from txnconsole.operations import partitions
from txnconsole.quantities import counted


class TruncateForm(ReasonForm):
    """Where to cut the log."""

    offset = forms.IntegerField(
        min_value=0,
        max_value=MAX_OFFSET,
        label="Drop everything from offset",
        widget=forms.TextInput(attrs=NUMBER | {"class": "field num"}),
    )


@dataclass(frozen=True, slots=True)
class Operation:
    """A kind of operation: its question, its effects as of now, and the call that does it."""

    title: str
    verb: str
    effects: Callable[[PartitionStatus], list[str]]
    change: Callable[[Actor, PartitionName, ReasonForm], Outcome]
    form: type[ReasonForm] = ReasonForm
    harm: bool = False


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.PARTITION_OPERATE)
def operate(request: ConsoleRequest, topic: TopicName, number: int, name: str) -> HttpResponse:
    """Ask about an operation; on POST, do it."""
    operation = OPERATIONS.get(name)
    if operation is None:
        raise Http404
    partition = PartitionName(topic, number)
    status = engine().log.status(partition)
    confirmation = Confirmation(
        title=operation.title.format(partition=partition),
        effects=operation.effects(status),
        verb=operation.verb,
        keep="Leave it",
        address=reverse("console:operate-partition", args=[topic, number, name]),
        of=str(partition),
        back=reverse("console:partition", args=[topic, number]),
        harm=operation.harm,
    )
    actor = actor_of(request)
    return ask(
        request,
        confirmation,
        operation.form,
        lambda form: operation.change(actor, partition, form),
    )


def _offline(actor: Actor, partition: PartitionName, form: ReasonForm) -> Outcome:
    partitions.take_offline(actor, partition, form.cleaned_data["reason"])
    return Outcome(title=f"{partition} is offline", lines=["It serves nothing until it is online."])


def _online(actor: Actor, partition: PartitionName, form: ReasonForm) -> Outcome:
    ended = partitions.bring_online(actor, partition, form.cleaned_data["reason"])
    lines = [f"Carried out the end of {', '.join(map(str, ended))} first."] if ended else []
    return Outcome(title=f"{partition} is online", lines=lines)


def _snapshot(actor: Actor, partition: PartitionName, form: ReasonForm) -> Outcome:
    info = partitions.snapshot(actor, partition, form.cleaned_data["reason"])
    if info is None:
        return Outcome(title="No snapshot was taken", lines=["Another call came in between."])
    return Outcome(
        title=f"Snapshot of {partition} taken",
        lines=[f"Recovery would start from offset {info.position:,}."],
    )


def _recover(actor: Actor, partition: PartitionName, form: ReasonForm) -> Outcome:
    partitions.recover(actor, partition, form.cleaned_data["reason"])
    status = engine().log.status(partition)
    return Outcome(
        title=f"{partition} is recovered",
        lines=[
            f"Stable position {status.stable_position:,}, last position {status.last_offset:,}.",
            f"{counted(status.ongoing_txns, 'open transaction')}.",
        ],
    )


def _truncate(actor: Actor, partition: PartitionName, form: ReasonForm) -> Outcome:
    offset = form.cleaned_data["offset"]
    done = partitions.truncate(actor, partition, offset, form.cleaned_data["reason"])
    lines = [f"Entries dropped: {done.entries:,}. The log goes on at offset {done.next_offset:,}."]
    if done.reopened:
        named = ", ".join(map(str, done.reopened))
        lines.append(f"Open again until the partition is online: {named}.")
    return Outcome(title=f"{partition} is truncated", lines=lines)


def _offline_effects(status: PartitionStatus) -> list[str]:
    return [
        "Producers and consumers of it get an error until it is online again.",
        f"What is open here stays open ({counted(status.ongoing_txns, 'transaction')}); ends wait.",
    ]


def _online_effects(status: PartitionStatus) -> list[str]:
    found = counted(status.ongoing_txns, "open transaction")
    return ["It serves again.", f"Decisions on its {found} are carried out first."]


def _snapshot_effects(status: PartitionStatus) -> list[str]:
    if status.snapshot is None:
        return ["It has no snapshot; recovery would read the whole log."]
    return [
        f"Recovery then starts at {status.last_offset:,} instead of {status.snapshot.position:,}.",
        "Appends wait for as long as it takes to write, usually a few milliseconds.",
    ]


def _recover_effects(status: PartitionStatus) -> list[str]:
    effects = [
        "What is derived is thrown away and rebuilt from the newest good snapshot and the log.",
        "Nothing durable changes; it serves nothing meanwhile.",
    ]
    rehearsal = region(lambda: engine().inspect.rehearse(status.partition)).value
    if rehearsal is not None:
        least = "" if rehearsal.exact else "at least "
        effects.append(f"It reads {least}{rehearsal.entries:,} entries.")
        measured = rehearsal.measured_recoveries
        by = counted(measured, "measurement") if measured else "what is usual"
        effects.append(f"That takes {least or 'about '}{rehearsal.estimated_ms:,.0f} ms, by {by}.")
    return effects


def _truncate_effects(status: PartitionStatus) -> list[str]:
    effects = [
        f"The log holds offsets {status.log_start_offset:,} to {status.last_offset:,}.",
        "Whole batches are cut, so it may end a little lower. There is no way back.",
        "Cursors beyond the end move back.",
        "A transaction whose marker is cut is open again until the partition is online.",
    ]
    if status.state is not PartitionState.OFFLINE:
        effects.insert(0, "The partition is online: take it offline first, or this is refused.")
    return effects


OPERATIONS = {
    "offline": Operation(
        "Take {partition} offline?", "Take offline", _offline_effects, _offline, harm=True
    ),
    "online": Operation("Bring {partition} online?", "Bring online", _online_effects, _online),
    "snapshot": Operation(
        "Snapshot {partition} now?", "Take snapshot", _snapshot_effects, _snapshot
    ),
    "recover": Operation("Recover {partition}?", "Recover", _recover_effects, _recover, harm=True),
    "truncate": Operation(
        "Truncate {partition}?",
        "Truncate",
        _truncate_effects,
        _truncate,
        form=TruncateForm,
        harm=True,
    ),
}
