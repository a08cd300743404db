"""A page's question asked elsewhere: the REST call that answers it, and the ``txnctl`` command.

One table for all pages, by the names of their addresses. What a page asks of several calls is given
as the call that tells most of it; a page that no call answers (a search, a form) has none.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from django.http import HttpRequest, QueryDict

from engine.model.errors import InvalidRequest
from engine.model.topic_name import PartitionName, TopicName
from engine.model.transaction import TransactionOrder
from txnconsole.console.numbers import number_of
from txnconsole.console.transaction_list import Listing
from txnconsole.console.transaction_query import QueryError, parse
from txnconsole.console.views.explain import ExplainForm

#: Stands for the token in every line: the console knows none.
TOKEN = "$TXNCONSOLE_TOKEN"  # noqa: S105  # A placeholder.
WHY = "why it is done"
_MORE = 50
_MS = 1_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A page's address: the names in its path, its query, who looks."""

    path: Mapping[str, Any]
    query: QueryDict
    me: str

    @property
    def topic(self) -> str:
        name: TopicName = self.path["topic"]
        return f"topics/{name}"

    @property
    def partition(self) -> PartitionName:
        return PartitionName(self.path["topic"], self.path["number"])

    @property
    def partition_path(self) -> str:
        return f"{self.topic}/partitions/{self.path['number']}"

    @property
    def subscription(self) -> str:
        return f"{self.topic}/subscriptions/{quote(self.path['name'], safe='')}"

    def number(self, name: str, default: int = 0) -> int:
        found = number_of(self.query.get(name, "").replace(",", ""))
        return default if found is None else found

    def given(self, *names: str) -> dict[str, str]:
        """The parameters of the page that its call takes by the same names."""
        return {name: str(self.query[name]) for name in names if self.query.get(name)}


@dataclass(frozen=True, slots=True)
class Call:
    """``path`` is below ``/api/v1``; ``command`` is what follows ``txnctl``, None where it has no
    command for it."""

    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    command: tuple[object, ...] | None = None
    method: str = "GET"
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Lines:
    """What can be copied into a shell where ``TXNCONSOLE_TOKEN`` is set; ``changes``: it is no
    question, it does what the page would do."""

    curl: str
    txnctl: str | None
    changes: bool


def elsewhere(request: HttpRequest, me: str) -> Lines | None:
    """The lines for a request's page; None for one that no call answers."""
    match = request.resolver_match
    make = _CALLS.get(match.url_name or "") if match is not None else None
    if match is None or make is None:
        return None
    try:
        call = make(Asked(match.kwargs, request.GET, me))
    except (QueryError, InvalidRequest):
        return None
    return None if call is None else lines(call, f"{request.scheme}://{request.get_host()}")


def lines(call: Call, server: str) -> Lines:
    """A call as lines of a POSIX shell."""
    query = urlencode(call.query, doseq=True, safe=":/")
    address = f"{server}/api/v1/{call.path}" + (f"?{query}" if query else "")
    parts = ["curl", "-sS", f'-H "Authorization: Bearer {TOKEN}"']
    if call.method != "GET":
        parts.append(f"-X {call.method}")
    if call.body is not None:
        parts.append("-H 'Content-Type: application/json'")
        parts.append("-d " + shlex.quote(json.dumps(call.body)))
    parts.append(shlex.quote(address))
    command = call.command
    return Lines(
        curl=" ".join(parts),
        txnctl=None
        if command is None
        else shlex.join(["txnctl", "--url", server, *map(str, command)]),
        changes=call.method != "GET",
    )


def _transactions(asked: Asked) -> Call | None:
    listing = Listing.of(asked.query)
    query = parse(listing.text, me=asked.me)
    wanted = query.filter
    if query.txn_ids or wanted.subscription or wanted.timed_out or wanted.pending_acks:
        return None  # The REST API has no such filters.
    same = {
        "status": [str(one) for one in wanted.statuses],
        "owner": wanted.owner,
        "client": wanted.client,
        "topic": wanted.topic,
    }
    times = {
        "opened_after": wanted.opened_after and wanted.opened_after.isoformat(),
        "opened_before": wanted.opened_before and wanted.opened_before.isoformat(),
    }
    call: dict[str, Any] = same | times
    command: dict[str, Any] = dict(same)
    if wanted.tc_id is not None:
        call["coordinator_id"] = command["coordinator"] = wanted.tc_id
    if wanted.min_age_ms is not None:
        call["min_age_ms"] = wanted.min_age_ms
        command["min-age"] = wanted.min_age_ms / _MS
    if wanted.overdue:
        call["overdue"] = "true"
    if listing.order is not TransactionOrder.NEWEST:
        call["order"] = command["order"] = str(listing.order)
    return Call(
        "transactions",
        _present(call),
        None
        if any(times.values())
        else (
            *("transactions", "list", *_options(_present(command))),
            *(("--overdue",) if wanted.overdue else ()),
        ),
    )


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "", [])}


def _options(values: Mapping[str, Any]) -> list[object]:
    return [
        part
        for name, value in values.items()
        for one in (value if isinstance(value, list) else [value])
        for part in (f"--{name}", one)
    ]


def _log(asked: Asked) -> Call:
    at = asked.number("at")
    return _entries(asked, at, _MORE)


def _entries(asked: Asked, offset: int, limit: int) -> Call:
    return Call(
        f"{asked.partition_path}/messages",
        {"view": "log", "from_offset": offset, "max_messages": limit},
        ("partitions", "log", asked.partition, "--from", offset, "--limit", limit),
    )


def _explain(asked: Asked) -> Call | None:
    form = ExplainForm(asked.query)
    if "message" not in asked.query or not form.is_valid():
        return None
    data = form.cleaned_data
    partition: PartitionName = data["place"]
    subscription = data.get("subscription", "").strip()
    isolation = data.get("isolation")
    return Call(
        f"topics/{partition.topic}/partitions/{partition.number}/explain",
        _present({"offset": data["offset"], "subscription": subscription, "isolation": isolation}),
        (
            *("partitions", "explain", partition, data["offset"]),
            *_options(_present({"subscription": subscription, "isolation": isolation})),
        ),
    )


def _operate(asked: Asked) -> Call:
    name = asked.path["name"]
    cut = {"offset": asked.number("offset")} if name == "truncate" else {}
    return Call(
        f"{asked.partition_path}/{name}",
        method="POST",
        body=cut | {"reason": WHY},
        command=("partitions", name, asked.partition, *cut.values(), "--reason", WHY),
    )


def _subscriptions(asked: Asked) -> Call:
    return Call(
        f"{asked.topic}/subscriptions", command=("subscriptions", "list", asked.path["topic"])
    )


def _started(asked: Asked) -> Call:
    body = {"kind": asked.path["kind"], "parameters": {}, "reason": WHY}
    return Call("pipeline/runs", method="POST", body=body)


def _about_transaction(part: str, *command: str, reason: bool = True) -> Callable[[Asked], Call]:
    """A change of one transaction."""

    def call(asked: Asked) -> Call:
        txn_id = asked.path["txn_id"]
        return Call(
            f"transactions/{txn_id}/{part}",
            method="POST",
            body={"reason": WHY} if reason else {},
            command=(*command, txn_id, "--reason", WHY) if command else None,
        )

    return call


def _plain(path: str, *command: str, query: Mapping[str, Any] | None = None) -> Callable[..., Call]:
    """A question without a subject."""
    return lambda _: Call(path, query or {}, command or None)


_SLOW = ("transactions", "slow", "--min-age", "0")
_CALLS: Mapping[str, Callable[[Asked], Call | None]] = {
    "overview": _plain("slow-transactions", *_SLOW, query={"min_age_ms": 0}),
    "held-back": _plain("slow-transactions", *_SLOW, query={"min_age_ms": 0}),
    "transactions": _transactions,
    "transaction": lambda asked: Call(
        f"transactions/{asked.path['txn_id']}",
        command=("transactions", "describe", asked.path["txn_id"]),
    ),
    "abort": _about_transaction("abort", "transactions", "abort"),
    "retry-transaction": _about_transaction("retry"),
    "bulk-aborts": _plain(
        "jobs", "jobs", "list", "--kind", "bulk_abort", query={"kind": "bulk_abort"}
    ),
    "bulk-job": lambda asked: Call(
        f"jobs/{asked.path['job_id']}", command=("jobs", "describe", asked.path["job_id"])
    ),
    "hanging": _plain("hanging-transactions", "transactions", "find-hanging"),
    "topics": _plain("topics", "topics", "list"),
    "topic": lambda asked: Call(
        f"{asked.topic}/partitions", command=("topics", "describe", asked.path["topic"])
    ),
    "create-topic": lambda _: Call(
        "topics/public/default/NAME",
        method="PUT",
        body={"partitions": 1},
        command=("topics", "create", "public/default/NAME", "--partitions", 1),
    ),
    "delete-topic": lambda asked: Call(
        asked.topic, method="DELETE", command=("topics", "delete", asked.path["topic"])
    ),
    "partition": lambda asked: Call(
        f"{asked.partition_path}/blockers", command=("partitions", "blockers", asked.partition)
    ),
    "log": _log,
    "log-entry": lambda asked: _entries(asked, asked.path["offset"], 1),
    "test-message": lambda asked: Call(
        f"{asked.partition_path}/messages",
        method="POST",
        body={"messages": [{"payload": "a test"}]},
        command=(
            *("produce", asked.path["topic"], "-m", "a test"),
            *("--partition", asked.path["number"]),
        ),
    ),
    "history": lambda asked: Call(
        f"{asked.partition_path}/history", command=("partitions", "history", asked.partition)
    ),
    "delivery-models": lambda asked: Call(
        f"{asked.partition_path}/messages", {"order": "committed", "max_messages": _MORE}
    ),
    "aborted-ranges": lambda asked: Call(
        f"{asked.partition_path}/aborted-index", asked.given("segment")
    ),
    "partition-snapshots": lambda asked: Call(
        f"{asked.partition_path}/rehearsal"
        if asked.query.get("rehearse") == "1"
        else asked.partition_path,
        command=None
        if asked.query.get("rehearse") == "1"
        else ("partitions", "describe", asked.partition),
    ),
    "partition-subscriptions": _subscriptions,
    "operate-partition": _operate,
    "subscription": lambda asked: Call(
        asked.subscription,
        command=("subscriptions", "describe", asked.path["topic"], asked.path["name"]),
    ),
    "seek": lambda asked: Call(
        f"{asked.subscription}/seek",
        method="POST",
        body={"earliest": True, "reason": WHY},
        command=(
            *("subscriptions", "seek", asked.path["topic"], asked.path["name"]),
            *("--earliest", "--reason", WHY),
        ),
    ),
    "coordinators": _plain("coordinators", "coordinators", "list"),
    "coordinators-scale": lambda _: Call(
        "coordinators/scale",
        method="POST",
        body={"count": 16, "reason": WHY},
        command=("coordinators", "scale", 16, "--reason", WHY),
    ),
    "coordinator": lambda asked: Call(f"coordinators/{asked.path['tc_id']}"),
    "invariants": _plain("invariants"),
    "explain": _explain,
    "pipeline": lambda asked: Call("pipeline/runs", asked.given("kind", "state")),
    "run": lambda asked: Call(f"pipeline/runs/{asked.path['run_id']}"),
    "start-run": _started,
    "cancel-run": lambda asked: Call(
        f"pipeline/runs/{asked.path['run_id']}/cancel", method="POST", body={"reason": WHY}
    ),
    "repeat-run": lambda asked: Call(
        f"pipeline/runs/{asked.path['run_id']}/repeat", method="POST", body={"reason": WHY}
    ),
    "alerts": _plain("alerts", "alerts", "list", query={"state": "firing"}),
    "alert-history": _plain("alerts", "alerts", "list", "--state", "all"),
    "alert": lambda asked: Call(f"alerts/{asked.path['alert_id']}"),
    "alert-rules": _plain("alerts/rules"),
    "alert-silences": _plain("alerts/silences"),
    "alert-channels": _plain("alerts/channels"),
    "audit": lambda asked: Call("audit", asked.given("who", "action", "object")),
    "settings-profile": _plain("me"),
    "settings-tokens": _plain("tokens"),
    "settings-users": _plain("users"),
    "settings-user": lambda asked: Call(f"users/{quote(asked.path['name'], safe='')}"),
}
