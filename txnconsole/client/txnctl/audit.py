"""``txnctl audit``: who changed what, why, and whether the log of it is whole."""

from __future__ import annotations

from typing import Annotated

import typer

from txnconsole.client.txnctl.render import Column, exact, moment, plain
from txnconsole.client.txnctl.session import FAILED, Limit, Moment, session_of

app = typer.Typer(help="Read the audit log, and verify it.", no_args_is_help=True)

_ENTRIES = 10_000

_LIST = (
    Column("ENTRY", "sequence", exact, right=True),
    Column("AT", "at", moment),
    Column("WHO", "who", prose=True),
    Column("ACTION", "action"),
    Column("OBJECT", "object", exact, prose=True),
    Column("RESULT", "result"),
    Column("REASON", "reason", prose=True),
)
_PROOF = (
    ("valid", "valid", plain),
    ("entries", "entries", plain),
    ("last valid entry", "sequence", exact),
    ("its hash", "hash", exact),
    ("first fault at entry", "fault.sequence", exact),
    ("which is", "fault.problem", plain),
)


@app.command("list")
def list_them(
    context: typer.Context,
    who: Annotated[str | None, typer.Option(help="Only what this user has done.")] = None,
    action: Annotated[str | None, typer.Option(help="e.g. transaction.abort")] = None,
    about: Annotated[str | None, typer.Option("--object", help="e.g. transaction:3:17")] = None,
    after: Moment = None,
    before: Moment = None,
    limit: Limit = 50,
) -> None:
    """List entries, the newest first; as JSON with what was before and after."""
    session = session_of(context)
    rows = session.pages(
        "/audit", limit=limit, who=who, action=action, object=about, after=after, before=before
    )
    session.show_rows(rows, _LIST)


@app.command()
def verify(
    context: typer.Context,
    after: Annotated[
        int, typer.Option("--after-entry", min=0, help="Go on behind this entry.")
    ] = 0,
    known: Annotated[
        str | None, typer.Option("--hash", help="The hash that was noted for that entry.")
    ] = None,
) -> None:
    """Recompute the chain of hashes, of all entries unless told otherwise.

    Note the last entry and its hash elsewhere, and give them the next time: what was cut off or
    written anew is found too. Exit code 1 when the log is not what it was.
    """
    session = session_of(context)
    entries = 0
    while True:
        query = {"after_sequence": after, "hash": known, "limit": _ENTRIES}
        proof = session.get("/audit/verify", **query)
        entries += proof["entries"]
        after, known = proof["sequence"], proof["hash"]
        if proof["complete"] or not proof["valid"]:
            break
    session.show(proof | {"entries": entries}, _PROOF)
    if not proof["valid"]:
        raise typer.Exit(FAILED)
