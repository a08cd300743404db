"""``txnctl coordinators``."""

from __future__ import annotations

import typer

from txnconsole.client.txnctl.render import Column, duration, exact
from txnconsole.client.txnctl.session import session_of

app = typer.Typer(help="See the coordinators.", no_args_is_help=True)

_LIST = (
    Column("ID", "coordinator_id", exact, right=True),
    Column("STATE", "state"),
    Column("LAST SEQUENCE", "sequence", exact, right=True),
    Column("LOW WATER MARK", "low_water_mark", exact, right=True),
    Column("ONGOING", "ongoing_txns", right=True),
    Column("FINALIZING", "finalizing_txns", right=True),
    Column("OLDEST OPEN", "oldest_open_age_ms", duration, right=True),
)


@app.command("list")
def list_them(context: typer.Context) -> None:
    """List the coordinators with their counters."""
    session = session_of(context)
    session.show_rows(session.get("/coordinators")["items"], _LIST)
