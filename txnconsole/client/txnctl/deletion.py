"""Deleting a topic or a subscription, by force too."""

from __future__ import annotations

from typing import Annotated

import typer

from txnconsole.client.txnctl.render import Column, exact, plain
from txnconsole.client.txnctl.session import Output, Session

Force = Annotated[
    bool, typer.Option("--force", help="Also when transactions hold it: abort their part.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_PARTS = (Column("TRANSACTION", "txn_id", exact), Column("PART", "participant", plain, prose=True))


def delete(session: Session, what: str, path: str, *, force: bool) -> None:
    """Delete what stands at a path; says what it was, and which transactions took part in it."""
    answer = session.send("DELETE", path, {}, {"force": "true"} if force else {})
    if session.output is Output.JSON:
        session.show_json(answer)
        return
    session.say(f"{what} is deleted.")
    if parts := answer.get("aborted_participations"):
        session.say("Transactions that took part in it:")
        session.show_rows(parts, _PARTS)
