"""``txnctl transactions``: see, explain and end transactions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from txnconsole.client.txnctl.render import Column, exact, moment, plain
from txnconsole.client.txnctl.session import (
    UNAVAILABLE,
    Limit,
    Moment,
    Output,
    Why,
    milliseconds,
    session_of,
)
from txnconsole.client.wire import segments
from txnconsole.quantities import duration

app = typer.Typer(help="See, explain and end transactions.", no_args_is_help=True)

TxnID = Annotated[str, typer.Argument(metavar="TXN_ID", help="<coordinator>:<sequence>, e.g. 3:42")]
Reason = Annotated[str, typer.Option(help="Why; needed for another's transaction, and kept.")]

LIST = (
    Column("TRANSACTION", "txn_id", exact),
    Column("STATUS", "status"),
    Column("AGE", "age_ms", duration, right=True),
    Column("OVERDUE", "overdue_ms", lambda value: duration(value) if value else "–", right=True),
    Column("OWNER", "owner", prose=True),
    Column("CLIENT", "client", prose=True),
    Column("OPENED", "opened_at", moment),
    Column("ENDED BY", "end_reason"),
)
_HEADER = (
    ("transaction", "txn_id", exact),
    ("PIP-31 bits", "_bits", exact),
    ("status", "status", plain),
    ("owner", "owner", plain),
    ("client", "client", plain),
    ("properties", "properties", plain),
    ("opened", "opened_at", moment),
    ("deadline", "deadline", moment),
    ("age", "age_ms", duration),
    ("decided", "decided_at", moment),
    ("ended", "ended_at", moment),
    ("ended by", "end_reason", plain),
    ("because", "end_detail", plain),
)
_PARTITIONS = (
    Column("PARTITION", "partition"),
    Column("STATE", "state"),
    Column("FIRST", "first_offset", exact, right=True, spare=True),
    Column("LAST", "last_offset", exact, right=True, spare=True),
    Column("MESSAGES", "messages", right=True),
    Column("ATTEMPTS", "attempts", right=True, spare=True),
    Column("LAST ERROR", "last_error", prose=True),
)
_SUBSCRIPTIONS = (
    Column("TOPIC", "topic"),
    Column("SUBSCRIPTION", "subscription"),
    Column("STATE", "state"),
    Column("ACKED", "acked_messages", right=True),
    Column("ATTEMPTS", "attempts", right=True, spare=True),
    Column("LAST ERROR", "last_error", prose=True),
)
_LOG = (
    Column("AT", "at", moment),
    Column("RECORD", "metadata_op"),
    Column("EXPECTED", "expected_status", spare=True),
    Column("NEW", "new_status"),
    Column("PARTITIONS", "partitions", prose=True),
    Column("SUBSCRIPTIONS", "subscriptions", prose=True),
)
_IMPACT = (
    Column("PARTITION", "partition"),
    Column("STABLE", "stable_position", exact, right=True),
    Column("AFTER", "stable_position_after", exact, right=True),
    Column("BECOME VISIBLE", "messages_visible", right=True),
    Column("DISCARDED", "messages_discarded", right=True),
    Column("NEXT BLOCKER", "next_blocker", exact),
)
_HANGING = (
    Column("TRANSACTION", "txn_id", exact),
    Column("HANGS AS", "kind"),
    Column("STATUS", "status"),
    Column("WHERE", "_where", prose=True),
    Column("AGE", "age_ms", duration, right=True),
    Column("HIDES", "hidden_messages", right=True),
    Column("OWNER", "owner", prose=True),
    Column("REMEDY", "remedy.action"),
    Column("BECAUSE", "remedy.why", prose=True),
)
_RETRIED = (
    ("transaction", "txn_id", exact),
    ("status", "status", plain),
    ("replayed at", "replayed", plain),
    ("registered", "registered", plain),
)
_ACK_IMPACT = (
    Column("TOPIC", "topic"),
    Column("SUBSCRIPTION", "subscription"),
    Column("ACKS FINAL", "acks_final", right=True),
    Column("GIVEN BACK", "acks_given_back", right=True),
)


@app.command("list")
def list_them(
    context: typer.Context,
    status: Annotated[list[str] | None, typer.Option(help="Repeatable, e.g. OPEN.")] = None,
    owner: Annotated[str | None, typer.Option(help="Whose they are.")] = None,
    client: Annotated[str | None, typer.Option(help="Which program opened them.")] = None,
    topic: Annotated[str | None, typer.Option(help="Takes part in it.")] = None,
    coordinator: Annotated[
        int | None, typer.Option(help="The number before the colon of an id.")
    ] = None,
    min_age: Annotated[float | None, typer.Option(min=0, help="Seconds.")] = None,
    overdue: Annotated[bool, typer.Option("--overdue", help="Past the deadline.")] = False,
    opened_after: Moment = None,
    opened_before: Moment = None,
    order: Annotated[str, typer.Option(help="newest, oldest or overdue")] = "newest",
    limit: Limit = 50,
) -> None:
    """List transactions."""
    session = session_of(context)
    rows = session.pages(
        "/transactions",
        limit=limit,
        status=[each.upper() for each in status or []],
        owner=owner,
        client=client,
        topic=topic,
        coordinator_id=coordinator,
        min_age_ms=milliseconds("--min-age", min_age),
        overdue="true" if overdue else None,
        opened_after=opened_after,
        opened_before=opened_before,
        order=order,
    )
    session.show_rows(rows, LIST)


@app.command()
def slow(
    context: typer.Context,
    min_age: Annotated[float, typer.Option(min=0, help="Seconds since it was opened.")] = 60.0,
    limit: Limit = 50,
) -> None:
    """List transactions that have not ended for long, the oldest first."""
    session = session_of(context)
    age = milliseconds("--min-age", min_age)
    session.show_rows(session.pages("/slow-transactions", limit=limit, min_age_ms=age), LIST)


@app.command("find-hanging")
def find_hanging(
    context: typer.Context,
    late: Annotated[
        float | None, typer.Option(min=0, help="Seconds after which an open one is late.")
    ] = None,
    limit: Limit = 50,
) -> None:
    """Find what hangs, and what mends it: coordinators, buffers and pending acks cross-checked.

    Exit code 7 when not everything could be looked at.
    """
    session = session_of(context)
    late_ms = milliseconds("--late", late)
    answer = session.get("/hanging-transactions", limit=min(limit, 500), late_ms=late_ms)
    found, cursor = list(answer["items"]), answer["next_cursor"]
    all_looked_at = not answer["unavailable"]
    while cursor is not None and len(found) < limit:
        answer = session.get("/hanging-transactions", cursor=cursor, late_ms=late_ms)
        found, cursor = found + answer["items"], answer["next_cursor"]
        all_looked_at = all_looked_at and not answer["unavailable"]
    if session.output is Output.TABLE and not found:
        session.say("Nothing hangs." if all_looked_at else "Nothing was found to hang elsewhere.")
    else:
        rows = found[:limit]
        written = (each | {"_where": _where(each)} for each in rows)
        session.show_rows(rows if session.output is Output.JSON else written, _HANGING)
    if not all_looked_at:
        raise typer.Exit(UNAVAILABLE)


@app.command()
def describe(context: typer.Context, txn_id: TxnID) -> None:
    """Show a transaction, its participants and its log."""
    session = session_of(context)
    path = f"/transactions/{segments(txn_id)}"
    found = session.get(path)
    log = list(session.pages(f"{path}/log", limit=None))
    if session.output is Output.JSON:
        session.show_json(found | {"log": log})
        return
    bits = f"({found['txnid_most_bits']},{found['txnid_least_bits']})"
    session.show(found | {"_bits": bits}, _HEADER)
    for rows, columns in (
        (found["partitions"], _PARTITIONS),
        (found["subscriptions"], _SUBSCRIPTIONS),
        (log, _LOG),
    ):
        if rows:
            session.show_rows(rows, columns)


@app.command()
def outcome(context: typer.Context, txn_id: TxnID) -> None:
    """Tell COMMITTED, ABORTED or UNDECIDED; known for every id, for ever."""
    session = session_of(context)
    answer = session.get(f"/transactions/{segments(txn_id)}/outcome")
    if session.output is Output.JSON:
        session.show_json(answer)
    else:
        session.say(answer["outcome"])


@app.command()
def impact(
    context: typer.Context,
    txn_id: TxnID,
    action: Annotated[str, typer.Option(help="abort or commit")] = "abort",
) -> None:
    """Tell what ending a transaction would do; changes nothing."""
    session = session_of(context)
    answer = session.get(f"/transactions/{segments(txn_id)}/impact", action=action)
    if session.output is Output.JSON:
        session.show_json(answer)
        return
    session.show_rows(answer["partitions"], _IMPACT)
    if answer["subscriptions"]:
        session.show_rows(answer["subscriptions"], _ACK_IMPACT)


@app.command()
def abort(
    context: typer.Context,
    txn_id: TxnID,
    reason: Reason = "",
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for ABORTED.")] = 10.0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Abort a transaction, after showing what that does."""
    session = session_of(context)
    if not yes and session.output is Output.TABLE:
        impact(context, txn_id, "abort")
        session.confirm(f"Abort {txn_id}?")
    _end(context, txn_id, "abort", {"reason": reason}, wait)


@app.command()
def commit(
    context: typer.Context,
    txn_id: TxnID,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for COMMITTED.")] = 10.0,
) -> None:
    """Commit a transaction of one's own."""
    _end(context, txn_id, "commit", {}, wait)


@app.command()
def retry(
    context: typer.Context,
    txn_id: TxnID,
    reason: Why = "",
) -> None:
    """Carry a decision out wherever it was missed; of an open one, register who holds it unlisted.

    What find-hanging names as replay, retry or register."""
    session = session_of(context)
    path = f"/transactions/{segments(txn_id)}/retry"
    session.show(session.send("POST", path, {"reason": reason}), _RETRIED)


def _where(found: dict[str, Any]) -> str | None:
    """The partition or the subscription that a finding is about; none when it is about all."""
    if found["subscription"] is not None:
        return f"{found['topic']} {found['subscription']}"
    where: str | None = found["partition"]
    return where


def _end(
    context: typer.Context, txn_id: str, action: str, body: dict[str, Any], wait: float
) -> None:
    session = session_of(context)
    path = f"/transactions/{segments(txn_id)}/{action}"
    ended = session.end(path, body, wait=wait)
    if session.output is Output.JSON:
        session.show_json(ended)
        return
    session.say(f"{ended['txn_id']} is {ended['status']}.")
    waiting = [
        ([each for each in ended[kind] if each["state"] == "pending"], columns)
        for kind, columns in (("partitions", _PARTITIONS), ("subscriptions", _SUBSCRIPTIONS))
    ]
    if any(rows for rows, _ in waiting):
        session.say("The decision is durable; these participants are still to carry it out:")
    for rows, columns in waiting:
        if rows:
            session.show_rows(rows, columns)
