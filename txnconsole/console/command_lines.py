"""Commands for a shell that do what a page does: a ``curl`` of the REST API, and ``txnctl``.

One table has them for all pages, by the names of their addresses. For a page that takes several
calls it has the call that answers most of the page. A page that no call answers (a search, a form)
has none.
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
from txnconsole.console.explain_form import ExplainForm
from txnconsole.console.numbers import number_of
from txnconsole.console.transaction_list import Listing
from txnconsole.console.transaction_query import QueryError, parse

#: Stands for the token in every line, because the console knows no tokens.
TOKEN = "$TXNCONSOLE_TOKEN"  # noqa: S105  # A placeholder.
WHY = "why it is done"
_MORE = 50
_MS = 1_000


@dataclass(frozen=True, slots=True)
class PageAddress:
    """The address of a page: the names in its path, its query, and the name of its reader."""

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

    def number(self, name: str) -> int:
        return number_of(self.query.get(name, "").replace(",", "")) or 0

    def given(self, *names: str) -> dict[str, str]:
        """The given ones of these parameters of the page; its call has the same names for them."""
        return {name: str(self.query[name]) for name in names if self.query.get(name)}


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the REST API; ``path`` is below ``/api/v1``. ``command`` is what follows
    ``txnctl``, None where ``txnctl`` cannot do it."""

    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    command: tuple[object, ...] | None = None
    method: str = "GET"
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CommandLines:
    """Lines for a shell in which ``TXNCONSOLE_TOKEN`` is set. ``changes``: they do not ask, they
    make the change that the page would make."""

    curl: str
    txnctl: str | None
    changes: bool


def command_lines(request: HttpRequest, me: str) -> CommandLines | None:
    """The command lines for a request's page; None for a page that no call answers."""
    match = request.resolver_match
    make = _CALLS.get(match.url_name or "") if match is not None else None
    if match is None or make is None:
        return None
    try:
        call = make(PageAddress(match.kwargs, request.GET, me))
    except (QueryError, InvalidRequest):
        return None
    return (
        None if call is None else as_command_lines(call, f"{request.scheme}://{request.get_host()}")
    )


def as_command_lines(call: Call, server: str) -> CommandLines:
    """A call as command lines of a POSIX shell."""
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
    return CommandLines(
        curl=" ".join(parts),
        txnctl=None
        if command is None
        else shlex.join(["txnctl", "--url", server, *map(str, command)]),
        changes=call.method != "GET",
    )


def _transactions(page: PageAddress) -> Call | None:
    listing = Listing.of(page.query)
    query = parse(listing.text, me=page.me)
    wanted = query.filter
    if query.txn_ids or wanted.subscription or wanted.timed_out or wanted.pending_acks:
        return None  # The REST API has no such filters.
    call: dict[str, Any] = {
        "status": [str(one) for one in wanted.statuses],
        "owner": wanted.owner,
        "client": wanted.client,
        "topic": wanted.topic,
    }
    command: dict[str, Any] = dict(call)
    for name, moment in (
        ("opened_after", wanted.opened_after),
        ("opened_before", wanted.opened_before),
    ):
        if moment is not None:
            call[name] = command[name.replace("_", "-")] = moment.isoformat()
    if wanted.tc_id is not None:
        call["coordinator_id"] = command["coordinator"] = wanted.tc_id
    if wanted.min_age_ms is not None:
        call["min_age_ms"] = wanted.min_age_ms
        command["min-age"] = wanted.min_age_ms / _MS
    if wanted.overdue:
        call["overdue"] = "true"
    if listing.order is not TransactionOrder.NEWEST:
        call["order"] = command["order"] = str(listing.order)
    options = _options(_present(command))
    flags = ("--overdue",) if wanted.overdue else ()
    return Call("transactions", _present(call), ("transactions", "list", *options, *flags))


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "", [])}


def _options(values: Mapping[str, Any]) -> list[object]:
    return [
        part
        for name, value in values.items()
        for one in (value if isinstance(value, list) else [value])
        for part in (f"--{name}", one)
    ]


def _tokens(page: PageAddress) -> Call:
    user, ended = page.given("user"), page.query.get("ended") == "1"
    return Call(
        "tokens",
        user | {"ended": str(ended).lower()},
        command=("tokens", "list", *_options(user), *(["--ended"] if ended else [])),
    )


def _entries(page: PageAddress, offset: int, limit: int) -> Call:
    return Call(
        f"{page.partition_path}/messages",
        {"view": "log", "from_offset": offset, "max_messages": limit},
        ("partitions", "log", page.partition, "--from", offset, "--limit", limit),
    )


def _explain(page: PageAddress) -> Call | None:
    form = ExplainForm(page.query)
    if "message" not in page.query or not form.is_valid():
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


def _operate(page: PageAddress) -> Call:
    name = page.path["name"]
    cut = {"offset": page.number("offset")} if name == "truncate" else {}
    return Call(
        f"{page.partition_path}/{name}",
        method="POST",
        body=cut | {"reason": WHY},
        command=("partitions", name, page.partition, *cut.values(), "--reason", WHY),
    )


def _subscriptions(page: PageAddress) -> Call:
    return Call(
        f"{page.topic}/subscriptions", command=("subscriptions", "list", page.path["topic"])
    )


def _started(page: PageAddress) -> Call:
    kind = page.path["kind"]
    return Call(
        "pipeline/runs",
        method="POST",
        body={"kind": kind, "parameters": {}, "reason": WHY},
        command=("pipeline", "start", kind, "--reason", WHY),
    )


def _change(objects: str, name: str, part: str, group: str) -> Callable[[PageAddress], Call]:
    """A change of one object; ``name`` is that of its id in the page's path, ``group`` what
    ``txnctl`` calls such objects."""

    def call(page: PageAddress) -> Call:
        found = page.path[name]
        return Call(
            f"{objects}/{found}/{part}",
            method="POST",
            body={"reason": WHY},
            command=(group, part, found, "--reason", WHY),
        )

    return call


def _plain(path: str, *command: str, query: Mapping[str, Any] | None = None) -> Callable[..., Call]:
    """A question without a subject."""
    return lambda _: Call(path, query or {}, command or None)


def _unless_filtered(
    call: Callable[[PageAddress], Call],
) -> Callable[[PageAddress], Call | None]:
    """Of a list without a filter by name; the REST API has no such filter."""
    return lambda page: None if page.query.get("q") else call(page)


_HELD_BACK = _plain("held-back-partitions", "partitions", "held-back")
_HELD_LONGEST = _plain(
    "held-back-partitions", "partitions", "held-back", "--longest", query={"order": "longest"}
)
_CALLS: Mapping[str, Callable[[PageAddress], Call | None]] = {
    "overview": _HELD_BACK,
    "held-back": lambda page: (
        _HELD_LONGEST if page.query.get("sort") == "longest" else _HELD_BACK
    )(page),
    "transactions": _transactions,
    "transaction": lambda page: Call(
        f"transactions/{page.path['txn_id']}",
        command=("transactions", "describe", page.path["txn_id"]),
    ),
    "abort": _change("transactions", "txn_id", "abort", "transactions"),
    "retry-transaction": _change("transactions", "txn_id", "retry", "transactions"),
    "bulk-aborts": _plain(
        "jobs", "jobs", "list", "--kind", "bulk_abort", query={"kind": "bulk_abort"}
    ),
    "bulk-job": lambda page: Call(
        f"jobs/{page.path['job_id']}", command=("jobs", "describe", page.path["job_id"])
    ),
    "hanging": _plain("hanging-transactions", "transactions", "find-hanging"),
    "topics": _unless_filtered(_plain("topics", "topics", "list")),
    "topic": lambda page: Call(
        f"{page.topic}/partitions", command=("topics", "describe", page.path["topic"])
    ),
    "create-topic": lambda _: Call(
        "topics/public/default/NAME",
        method="PUT",
        body={"partitions": 1},
        command=("topics", "create", "public/default/NAME", "--partitions", 1),
    ),
    "delete-topic": lambda page: Call(
        page.topic, method="DELETE", command=("topics", "delete", page.path["topic"])
    ),
    "partition": lambda page: Call(
        f"{page.partition_path}/blockers", command=("partitions", "blockers", page.partition)
    ),
    "log": lambda page: _entries(page, page.number("at"), _MORE),
    "log-entry": lambda page: _entries(page, page.path["offset"], 1),
    "test-message": lambda page: Call(
        f"{page.partition_path}/messages",
        method="POST",
        body={"messages": [{"payload": "a test"}]},
        command=(
            *("produce", page.path["topic"], "-m", "a test"),
            *("--partition", page.path["number"]),
        ),
    ),
    "history": lambda page: Call(
        f"{page.partition_path}/history", command=("partitions", "history", page.partition)
    ),
    "delivery-models": lambda page: Call(
        f"{page.partition_path}/messages", {"order": "committed", "max_messages": _MORE}
    ),
    "aborted-ranges": lambda page: Call(
        f"{page.partition_path}/aborted-index",
        page.given("segment"),
        command=("partitions", "aborted-index", page.partition, *_options(page.given("segment"))),
    ),
    "partition-snapshots": lambda page: Call(
        f"{page.partition_path}/rehearsal"
        if page.query.get("rehearse") == "1"
        else page.partition_path,
        command=(
            "partitions",
            "rehearse" if page.query.get("rehearse") == "1" else "describe",
            page.partition,
        ),
    ),
    "partition-subscriptions": _subscriptions,
    "operate-partition": _operate,
    "subscription": lambda page: Call(
        page.subscription,
        command=("subscriptions", "describe", page.path["topic"], page.path["name"]),
    ),
    "seek": lambda page: Call(
        f"{page.subscription}/seek",
        method="POST",
        body={"earliest": True, "reason": WHY},
        command=(
            *("subscriptions", "seek", page.path["topic"], page.path["name"]),
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
    "coordinator": lambda page: Call(
        f"coordinators/{page.path['tc_id']}",
        command=("coordinators", "describe", page.path["tc_id"]),
    ),
    "invariants": _unless_filtered(
        lambda page: (
            Call("invariants", {"broken": "true"}, ("invariants", "--broken"))
            if page.query.get("broken")
            else Call("invariants", command=("invariants",))
        )
    ),
    "explain": _explain,
    "pipeline": lambda page: Call(
        "pipeline/runs",
        page.given("kind", "state"),
        command=("pipeline", "runs", *_options(page.given("kind", "state"))),
    ),
    "run": lambda page: Call(
        f"pipeline/runs/{page.path['run_id']}",
        command=("pipeline", "describe", page.path["run_id"]),
    ),
    "start-run": _started,
    "cancel-run": _change("pipeline/runs", "run_id", "cancel", "pipeline"),
    "repeat-run": _change("pipeline/runs", "run_id", "repeat", "pipeline"),
    "alerts": _plain("alerts", "alerts", "list", query={"state": "firing"}),
    "alert-history": _plain("alerts", "alerts", "list", "--state", "all"),
    "alert": lambda page: Call(f"alerts/{page.path['alert_id']}"),
    "alert-rules": _plain("alerts/rules", "alerts", "rules"),
    "alert-silences": _plain("alerts/silences", "alerts", "silences", "--all"),
    "alert-channels": _plain("alerts/channels"),
    "audit": lambda page: Call(
        "audit",
        page.given("who", "action", "object"),
        command=("audit", "list", *_options(page.given("who", "action", "object"))),
    ),
    "settings-profile": _plain("me", "whoami"),
    "settings-tokens": _tokens,
    "settings-users": _plain("users"),
    "settings-user": lambda page: Call(f"users/{quote(page.path['name'], safe='')}"),
}
