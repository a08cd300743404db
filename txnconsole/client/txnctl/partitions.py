"""``txnctl partitions``: where they stand, who holds them up, what operators do to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from txnconsole.client.txnctl.names import PartitionArgument, partition_path
from txnconsole.client.txnctl.render import Column, exact, moment, plain
from txnconsole.client.txnctl.session import (
    FAILED,
    UNAVAILABLE,
    Json,
    Limit,
    Output,
    Why,
    session_of,
)
from txnconsole.quantities import duration

app = typer.Typer(help="See where partitions stand and who holds them up.", no_args_is_help=True)


_PARTITION = (
    ("partition", "partition", plain),
    ("broker", "broker", plain),
    ("state", "state", plain),
    ("offline because", "offline_reason", plain),
    ("log start", "log_start_offset", exact),
    ("last offset", "last_offset", exact),
    ("stable position", "stable_position", exact),
    ("hidden messages", "blocker.hidden_messages", plain),
    ("held by", "blocker.txn_id", exact),
    ("  its owner", "blocker.owner", plain),
    ("  its client", "blocker.client", plain),
    ("  its age", "blocker.age_ms", duration),
    ("ongoing transactions", "ongoing_txns", plain),
    ("aborted transactions", "aborted_txns", plain),
    ("low water marks", "low_water_marks", plain),
    ("snapshot at offset", "snapshot.position", exact),
    ("snapshot age", "snapshot.age_ms", duration),
    ("entries after it", "snapshot.entries_after", plain),
)
_SEGMENTS = (
    Column("SEGMENT", "ledger_id", exact),
    Column("FIRST", "first_offset", exact, right=True),
    Column("LAST", "last_offset", exact, right=True),
    Column("ENTRIES", "entries", right=True),
    Column("BYTES", "bytes", right=True),
    Column("SEALED", "sealed"),
    Column("CREATED", "created_at", moment),
    Column("OFFLOADED", "offloaded_at", moment),
)
BLOCKERS = (
    Column("TRANSACTION", "txn_id", exact),
    Column("STATUS", "status"),
    Column("FROM", "first_offset", exact, right=True),
    Column("AGE", "age_ms", duration, right=True),
    Column("OWNER", "owner", prose=True),
    Column("CLIENT", "client", prose=True),
    Column("DEADLINE", "deadline", moment),
    Column("STABLE AFTER", "stable_position_after", exact, right=True),
    Column("FREED", "messages_freed", right=True),
)
_HELD_BACK = (
    Column("PARTITION", "partition", exact),
    Column("HIDDEN", "hidden_messages", right=True),
    Column("FOR", "held_ms", duration, right=True),
    Column("TRANSACTION", "txn_id", exact),
    Column("STATUS", "status"),
    Column("OWNER", "owner", prose=True),
    Column("CLIENT", "client", prose=True),
    Column("DEADLINE", "deadline", moment),
)
_LOG = (
    Column("OFFSET", "offset", exact, right=True),
    Column("MESSAGE ID", "message_id", exact),
    Column("KIND", "kind"),
    Column("VISIBILITY", "visibility"),
    Column("TRANSACTION", "txn_id", exact),
    Column("KEY", "key", prose=True),
    Column("PUBLISHED", "publish_time", moment),
    Column("PAYLOAD", "payload", lambda value: plain(value)[:60], prose=True),
)

_EXPLANATION = (
    ("partition", "partition", plain),
    ("offset", "offset", exact),
    ("isolation", "isolation", plain),
    ("readable", "readable", plain),
    ("subscription", "subscription", plain),
    ("deliverable", "deliverable", plain),
)
_REASONS = (
    Column("REASON", "code"),
    Column("BECAUSE", "text", prose=True),
    Column("EVIDENCE", "evidence", prose=True),
)
_HISTORY = (
    Column("AT", "at", moment),
    Column("STABLE", "stable_position", exact, right=True),
    Column("LAST", "last_offset", exact, right=True),
    Column("EXACT", "exact"),
    Column("HELD BY", "holder", exact),
    Column("ENDED", "ended", exact),
)
_INDEX = (
    Column("TRANSACTION", "txn_id", exact),
    Column("OUTCOME", "outcome"),
    Column("SEGMENT", "ledger_id", exact, right=True),
    Column("FIRST", "first_offset", exact, right=True),
    Column("LAST", "last_offset", exact, right=True),
    Column("LAST STABLE", "last_stable_offset", exact, right=True),
)
_REHEARSAL = (
    ("partition", "partition", plain),
    ("from the snapshot at", "snapshot_position", exact),
    ("unreadable snapshots", "unreadable_snapshots", plain),
    ("last offset", "last_offset", exact),
    ("entries to read", "entries", plain),
    ("bytes", "bytes", plain),
    ("transactions", "transactions", plain),
    ("exact", "exact", plain),
    ("estimated time", "estimated_ms", duration),
    ("by recoveries measured", "measured_recoveries", plain),
)
_CHECKS = (
    Column("NUMBER", "invariant", exact, right=True),
    Column("INVARIANT", "name"),
    Column("HOLDS", "holds"),
    Column("NOT CHECKED BECAUSE", "skipped", prose=True),
    Column("COUNTER-EXAMPLES", "counter_examples", prose=True),
)
_SEGMENTS_SHOWN = 20
#: What a check says, the worst first: it is broken, could not be checked, or holds.
_BY_WORTH = (False, None, True)


@app.command()
def describe(context: typer.Context, partition: PartitionArgument) -> None:
    """Show positions, segments, snapshot and who holds the partition up."""
    session = session_of(context)
    answer = session.get(partition_path(partition))
    session.show(answer, _PARTITION)
    if session.output is Output.TABLE:
        segments = answer["segments"]
        session.show_rows(segments[:_SEGMENTS_SHOWN], _SEGMENTS)
        if len(segments) > _SEGMENTS_SHOWN:
            session.say(f"It has {len(segments)} segments; -o json shows all of them.")


@app.command("held-back")
def held_back(
    context: typer.Context,
    longest: Annotated[
        bool, typer.Option("--longest", help="What has waited longest first, not what hides most.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Show so many at most.")] = 50,
) -> None:
    """List the partitions whose readers wait, of all topics, and for which transaction.

    Exit code 7 when a broker does not answer.
    """
    session = session_of(context)
    order = "longest" if longest else "most"
    answer = session.get("/held-back-partitions", order=order, limit=limit)
    away = bool(answer["unavailable"])
    if session.output is Output.TABLE and not answer["items"]:
        session.say("Nothing is held back elsewhere." if away else "Nothing is held back.")
    else:
        session.show_rows(answer["items"], _HELD_BACK)
    if not answer["complete"]:
        session.say(f"More is held back than these {limit}; --limit shows more.")
    if away:
        raise typer.Exit(UNAVAILABLE)


@app.command()
def blockers(
    context: typer.Context,
    partition: PartitionArgument,
    limit: Limit = 50,
) -> None:
    """List the transactions under the stable position, and what ending each would free."""
    session = session_of(context)
    items = list(session.pages(f"{partition_path(partition)}/blockers", limit=limit))
    if not items and session.output is Output.TABLE:
        session.say("Nothing holds this partition up.")
        return
    session.show_rows(items, BLOCKERS)


@app.command()
def log(
    context: typer.Context,
    partition: PartitionArgument,
    from_offset: Annotated[int, typer.Option("--from", min=0, help="An offset.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Show so many at most.")] = 50,
) -> None:
    """Show the log as it stands: every entry, visible or not."""
    session = session_of(context)
    answer = session.get(
        f"{partition_path(partition)}/messages",
        view="log",
        from_offset=from_offset,
        max_messages=limit,
    )
    session.show_rows(answer["messages"], _LOG)
    session.say(
        f"stable position {answer['stable_position']}, last offset {answer['last_offset']};"
        f" go on with --from {answer['next_offset']}"
    )


@app.command()
def explain(
    context: typer.Context,
    partition: PartitionArgument,
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0)],
    subscription: Annotated[
        str | None, typer.Option(help="Whether its next receive may get the message, too.")
    ] = None,
    isolation: Annotated[
        str, typer.Option(help="read_committed or read_uncommitted")
    ] = "read_committed",
) -> None:
    """Tell why a message is given to a reader, or is not."""
    session = session_of(context)
    path = f"{partition_path(partition)}/explain"
    answer = session.get(path, offset=offset, subscription=subscription, isolation=isolation)
    if session.output is Output.JSON:
        session.show_json(answer)
        return
    session.show(answer, _EXPLANATION)
    session.show_rows(answer["reasons"], _REASONS)


@app.command()
def history(
    context: typer.Context,
    partition: PartitionArgument,
    at: Annotated[str | None, typer.Option(help="Where it stood then (RFC 3339).")] = None,
    offset: Annotated[
        int | None, typer.Option(min=0, help="Where it stood when this was the last offset.")
    ] = None,
    since: Annotated[str | None, typer.Option("--from", help="RFC 3339; an hour ago.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="RFC 3339; now.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Show so many at most.")] = 50,
) -> None:
    """Show where the stable position stood: at a moment, at an offset, or over a time."""
    session = session_of(context)
    query = {"at": at, "offset": offset, "from": since, "to": until, "limit": limit}
    answer = session.get(f"{partition_path(partition)}/history", **query)
    session.show_rows(answer["points"], _HISTORY)


@app.command("aborted-index")
def aborted_index(
    context: typer.Context,
    partition: PartitionArgument,
    segment: Annotated[int | None, typer.Option(min=0, help="Only of this segment.")] = None,
    limit: Limit = 50,
) -> None:
    """List the aborted-transaction index: who was aborted here, and where that stands."""
    session = session_of(context)
    rows = session.pages(f"{partition_path(partition)}/aborted-index", limit=limit, segment=segment)
    session.show_rows(rows, _INDEX)


@app.command()
def rehearse(context: typer.Context, partition: PartitionArgument) -> None:
    """Tell what recovery would read if the database restarted now, and how long it would take."""
    session = session_of(context)
    session.show(session.get(f"{partition_path(partition)}/rehearsal"), _REHEARSAL)


@app.command()
def check(context: typer.Context, partition: PartitionArgument) -> None:
    """Check the invariants over the whole log now. Exit code 1 when one does not hold."""
    session = session_of(context)
    checks: list[Json] = []
    position: int | None = 0
    while position is not None:
        part = session.get(f"{partition_path(partition)}/invariants", position=position)
        checks += part["checks"]
        position = part["next_position"]
    session.show_rows(_united(checks), _CHECKS)
    if any(each["holds"] is False for each in checks):
        raise typer.Exit(FAILED)


@app.command()
def snapshot(context: typer.Context, partition: PartitionArgument, reason: Why = "") -> None:
    """Snapshot the transaction buffer now."""
    _operate(context, partition, "snapshot", reason)


@app.command()
def recover(context: typer.Context, partition: PartitionArgument, reason: Why = "") -> None:
    """Rebuild what is derived from the newest good snapshot and the log."""
    _operate(context, partition, "recover", reason)


@app.command()
def offline(context: typer.Context, partition: PartitionArgument, reason: Why = "") -> None:
    """Take it offline: it serves nothing, ends of transactions wait."""
    _operate(context, partition, "offline", reason)


@app.command()
def online(context: typer.Context, partition: PartitionArgument, reason: Why = "") -> None:
    """Bring it online; decisions on what is open in it are carried out first."""
    session = session_of(context)
    answer = session.send("POST", f"{partition_path(partition)}/online", {"reason": reason})
    fields = (("partition", "partition", plain), ("ended", "ended_transactions", plain))
    session.show(answer, fields)


@app.command()
def truncate(
    context: typer.Context,
    partition: PartitionArgument,
    offset: Annotated[
        int, typer.Argument(metavar="OFFSET", min=0, help="Drop everything from here on.")
    ],
    reason: Why,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Drop the log from an offset on, in whole batches: it may end lower. There is no way back."""
    session = session_of(context)
    if not yes:
        session.confirm(
            f"Drop everything from offset {offset} on in {partition}? Whole batches are cut, so it"
            " may end lower."
        )
    path = f"{partition_path(partition)}/truncate"
    answer = session.send("POST", path, {"offset": offset, "reason": reason})
    session.show(
        answer,
        (
            ("next offset", "next_offset", exact),
            ("dropped entries", "dropped_entries", plain),
            ("reopened transactions", "reopened_transactions", plain),
        ),
    )


@app.command("force-abort")
def force_abort(
    context: typer.Context,
    partition: PartitionArgument,
    txn_id: Annotated[str, typer.Argument(metavar="TXN_ID")],
    reason: Why,
) -> None:
    """Abort an orphan that its coordinator does not know."""
    session = session_of(context)
    path = f"{partition_path(partition)}/force-abort"
    answer = session.send("POST", path, {"txn_id": txn_id, "reason": reason})
    session.show(answer, (("marker offset", "marker_offset", exact),))


def _united(checks: Iterable[Json]) -> list[Json]:
    """One row for each invariant, of the checks of all parts of a log: the worst of them."""
    worst: dict[tuple[int, str], Json] = {}
    for each in sorted(checks, key=lambda check: _BY_WORTH.index(check["holds"])):
        worst.setdefault((each["invariant"], each["name"]), each)
    return [worst[key] for key in sorted(worst)]


def _operate(context: typer.Context, partition: str, action: str, reason: str) -> None:
    session = session_of(context)
    path = f"{partition_path(partition)}/{action}"
    session.show(session.send("POST", path, {"reason": reason or None}), _PARTITION[:7])
