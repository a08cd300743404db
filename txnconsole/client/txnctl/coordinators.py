"""``txnctl coordinators``."""

from __future__ import annotations

from typing import Annotated

import typer

from txnconsole.client.txnctl.render import Column, exact, moment, plain
from txnconsole.client.txnctl.session import Why, session_of
from txnconsole.quantities import duration

app = typer.Typer(help="See the coordinators, and add some.", no_args_is_help=True)

_LIST = (
    Column("ID", "coordinator_id", exact, right=True),
    Column("STATE", "state"),
    Column("LAST SEQUENCE", "sequence", exact, right=True),
    Column("LOW WATER MARK", "low_water_mark", exact, right=True, spare=True),
    Column("ONGOING", "ongoing_txns", right=True),
    Column("FINALIZING", "finalizing_txns", right=True),
    Column("OLDEST OPEN", "oldest_open_age_ms", duration, right=True),
)
_COORDINATOR = (
    ("coordinator", "coordinator_id", exact),
    ("state", "state", plain),
    ("last sequence", "sequence", exact),
    ("low water mark", "low_water_mark", exact),
    ("ongoing", "ongoing_txns", plain),
    ("finalizing", "finalizing_txns", plain),
    ("oldest open", "oldest_open_age_ms", duration),
    ("carried out by", "owner", plain),
    ("recovery began", "recover_started_at", moment),
    ("recovery ended", "recover_ended_at", moment),
)


@app.command("list")
def list_them(context: typer.Context) -> None:
    """List the coordinators with their counters."""
    session = session_of(context)
    session.show_rows(session.pages("/coordinators", limit=None), _LIST)


@app.command()
def describe(
    context: typer.Context,
    coordinator: Annotated[int, typer.Argument(metavar="COORDINATOR", min=0, max=65_535)],
) -> None:
    """Show a coordinator, who carries out its decisions, and its last recovery."""
    session = session_of(context)
    session.show(session.get(f"/coordinators/{coordinator}"), _COORDINATOR)


@app.command()
def scale(
    context: typer.Context,
    count: Annotated[int, typer.Argument(metavar="COUNT", min=1, help="How many there are to be.")],
    reason: Why = "",
) -> None:
    """Grow the number of coordinators; it never shrinks."""
    session = session_of(context)
    answer = session.send("POST", "/coordinators/scale", {"count": count, "reason": reason or None})
    session.show(answer, (("coordinators", "count", plain), ("before", "before", plain)))
