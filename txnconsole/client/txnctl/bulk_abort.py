"""``txnctl transactions bulk-abort``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from txnconsole.client.txnctl.jobs import ITEMS, follow
from txnconsole.client.txnctl.session import (
    Json,
    Moment,
    Output,
    Session,
    Why,
    milliseconds,
    session_of,
)
from txnconsole.client.txnctl.transactions import LIST
from txnconsole.quantities import counted

_PATH = "/transactions/bulk-abort"
_SHOWN = 10
_CONFLICT = 5


def bulk_abort(
    context: typer.Context,
    reason: Why = "",
    status: Annotated[
        list[str] | None, typer.Option(help="Repeatable; OPEN when none is given.")
    ] = None,
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
    expect: Annotated[
        int | None, typer.Option(min=0, help="Abort only if there are exactly so many.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell how many.")] = False,
    wait: Annotated[bool, typer.Option(help="Until the job has ended.")] = True,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Abort all transactions that match, as a background job.

    Those that match when it starts, and no others. With neither a filter nor a question (--yes, or
    JSON as output) it needs --expect. Exit code 5 when some could not be aborted.
    """
    session = session_of(context)
    filter: dict[str, Any] = {
        "status": [each.upper() for each in status or []],
        "coordinator_id": coordinator,
        "owner": owner,
        "client": client,
        "topic": topic,
        "min_age_ms": milliseconds("--min-age", min_age),
        "overdue": overdue or None,
        "opened_after": opened_after,
        "opened_before": opened_before,
    }
    if not dry_run and not reason.strip():
        raise ValueError("Say why with --reason; the audit log keeps it.")
    asks = not yes and session.output is Output.TABLE
    narrows = any(value is not None for name, value in filter.items() if name != "status")
    if not (dry_run or asks or narrows or expect is not None):
        raise ValueError(
            "Without a filter this aborts every open transaction, unasked: narrow it down, or say"
            " how many there are with --expect."
        )
    query = filter | {"overdue": "true" if overdue else None}
    found = session.get(_PATH, **query)
    if dry_run:
        _tell(session, found)
        return
    if not found["within_limit"]:
        raise ValueError(
            f"More than {found['limit']} match, the most at once; narrow it down, for instance to"
            " the oldest with --opened-before."
        )
    if found["count"] == 0 and not expect and session.output is Output.TABLE:
        session.say("No transaction matches; there is nothing to abort.")
        return
    if asks:
        _ask(session, query, found["count"] if expect is None else expect)
    body = {
        "filter": {name: value for name, value in filter.items() if value not in (None, [])},
        "reason": reason,
        "expected_count": found["count"] if expect is None else expect,
    }
    job = session.send("POST", _PATH, body)
    if wait:
        session.say(f"Job {job['id']} has started; it goes on without this terminal.")
        job = follow(session, job)
    _report(session, job)


def _tell(session: Session, found: Json) -> None:
    if session.output is Output.JSON:
        session.show_json(found)
        return
    more = "" if found["within_limit"] else "More than "
    match = "matches" if found["count"] == 1 else "match"
    session.say(f"{more}{counted(found['count'], 'transaction')} {match}.")


def _ask(session: Session, query: dict[str, Any], count: int) -> None:
    """Show the first that would be aborted, and ask.

    Raises:
        typer.Exit: the answer is no.
    """
    shown = query | {"status": query["status"] or ["OPEN"], "order": "oldest"}
    session.show_rows(session.pages("/transactions", limit=_SHOWN, **shown), LIST)
    if count > _SHOWN:
        session.say(f"… and {count - _SHOWN} more.")
    session.confirm(f"Abort {counted(count, 'transaction')}?")


def _report(session: Session, job: Json) -> None:
    """What became of the job.

    Raises:
        typer.Exit: not every transaction was aborted; code 5.
    """
    progress = job["progress"]
    if session.output is Output.JSON:
        session.show_json(job)
    else:
        session.say(
            f"Job {job['id']} is {job['state']}: {progress['done']} of {progress['total']} aborted,"
            f" {progress['failed']} refused. {job['error']}".rstrip()
        )
        if progress["failed"]:
            path = f"/jobs/{job['id']}/items"
            session.show_rows(session.pages(path, limit=_SHOWN, state="failed"), ITEMS)
    if progress["failed"] or job["state"] in {"failed", "cancelled"}:
        raise typer.Exit(_CONFLICT)
