"""``txnctl invariants``: what the workers' continuous checks have found."""

from __future__ import annotations

from typing import Annotated

import typer

from txnconsole.client.txnctl.render import Column, exact, moment
from txnconsole.client.txnctl.session import FAILED, Limit, session_of

_LIST = (
    Column("NUMBER", "invariant", exact, right=True),
    Column("INVARIANT", "name"),
    Column("OF", "subject", exact, prose=True),
    Column("HOLDS", "holds"),
    Column("DETAIL", "detail", prose=True),
    Column("COUNTER-EXAMPLES", "counter_examples", prose=True),
    Column("CHECKED", "checked_at", moment),
)


def invariants(
    context: typer.Context,
    broken: Annotated[bool, typer.Option("--broken", help="Only those that do not hold.")] = False,
    limit: Limit = 50,
) -> None:
    """List the invariants with what is known of each; 'partitions check' looks anew.

    Exit code 1 when one that is listed does not hold.
    """
    session = session_of(context)
    wanted = "true" if broken else None
    rows = list(session.pages("/invariants", limit=limit, broken=wanted))
    session.show_rows(rows, _LIST)
    if not all(row["holds"] for row in rows):
        raise typer.Exit(FAILED)
