"""``txnctl alerts``: what fires, by which rules, silences, and saying that somebody sees to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated

import typer

from txnconsole.client.txnctl.render import Column, exact, moment, plain
from txnconsole.client.txnctl.session import Json, Limit, Output, Why, milliseconds, session_of
from txnconsole.quantities import duration

app = typer.Typer(help="See alerts, acknowledge and silence them.", no_args_is_help=True)

AlertID = Annotated[int, typer.Argument(metavar="ALERT", min=1)]
_UNITS = {"percent": " %", "per_minute": " a minute", "count": ""}

_LIST = (
    Column("ALERT", "id", exact, right=True),
    Column("SEVERITY", "severity"),
    Column("STATE", "state"),
    Column("RULE", "rule", prose=True),
    Column("OBJECT", "object", exact),
    Column("VALUE", "shown_value", right=True),
    Column("THRESHOLD", "shown_threshold", right=True),
    Column("SINCE", "fired_at", moment),
    Column("SILENCED UNTIL", "silenced_until", moment),
    Column("HANDLED BY", "acknowledgement.by", prose=True, spare=True),
    Column("DETAIL", "detail", prose=True),
)
_ALERT = (
    ("alert", "id", exact),
    ("rule", "rule", plain),
    ("object", "object", exact),
    ("state", "state", plain),
    ("acknowledged by", "acknowledgement.by", plain),
    ("note", "acknowledgement.note", plain),
)
_SILENCE = (
    ("silence", "id", exact),
    ("rule", "rule_id", exact),
    ("objects", "objects_matching", exact),
    ("until", "until", moment),
    ("reason", "reason", plain),
)

_SILENCES = (
    Column("SILENCE", "id", exact, right=True),
    Column("OBJECTS", "objects_matching", exact),
    Column("RULE ID", "rule_id", exact, right=True),
    Column("UNTIL", "until", moment),
    Column("BY", "created_by", prose=True, spare=True),
    Column("REASON", "reason", prose=True),
)
_ENDED = Column("ENDED", "ended_at", moment)


def _span(for_ms: int) -> str:
    return duration(for_ms) if for_ms else "at once"


_RULES = (
    Column("RULE ID", "id", exact, right=True),
    Column("RULE", "name", prose=True),
    Column("SEVERITY", "severity"),
    Column("FIRES ABOVE", "shown_threshold", right=True),
    Column("FOR", "for_ms", _span, right=True),
    Column("TOPICS", "topics", exact),
    Column("FIRING", "firing", right=True),
    Column("ENABLED", "enabled"),
    Column("MEASURES", "measures", prose=True, spare=True),
)


class State(StrEnum):
    FIRING = "firing"
    PENDING = "pending"
    RESOLVED = "resolved"
    ALL = "all"


@app.command("list")
def list_them(
    context: typer.Context,
    state: Annotated[State, typer.Option(help="Of which to list.")] = State.FIRING,
    rule: Annotated[str | None, typer.Option(help="Of the rule of this name.")] = None,
    about: Annotated[
        str | None, typer.Option("--object", help="e.g. partition:public/default/flights:0")
    ] = None,
    limit: Limit = 50,
) -> None:
    """List alerts, the newest first; what fires, unless asked otherwise."""
    session = session_of(context)
    wanted = None if state is State.ALL else state
    rows = session.pages("/alerts", limit=limit, state=wanted, rule=rule, object=about)
    session.show_rows(rows if session.output is Output.JSON else _written(rows), _LIST)


@app.command()
def ack(
    context: typer.Context,
    alert: AlertID,
    note: Annotated[str, typer.Option(help="What is being done; shown beside the alert.")] = "",
) -> None:
    """Say that somebody sees to an alert: nobody is reminded of it any more."""
    session = session_of(context)
    session.show(session.send("POST", f"/alerts/{alert}/acknowledge", {"note": note}), _ALERT)


@app.command()
def silence(
    context: typer.Context,
    objects: Annotated[
        str,
        typer.Argument(
            metavar="OBJECTS", help="A pattern with * and ?, such as 'partition:public/default/*'."
        ),
    ],
    reason: Why,
    hours: Annotated[float, typer.Option(min=0.02, help="For so long.")] = 1.0,
    rule: Annotated[int | None, typer.Option(min=1, help="Only of the rule of this id.")] = None,
) -> None:
    """Tell nobody of the alerts that match, for a while."""
    session = session_of(context)
    body = {
        "objects_matching": objects,
        "reason": reason,
        "duration_ms": milliseconds("--hours", hours * 3600),
        "rule_id": rule,
    }
    session.show(session.send("POST", "/alerts/silences", body), _SILENCE)


@app.command()
def unsilence(
    context: typer.Context, silence: Annotated[int, typer.Argument(metavar="SILENCE", min=1)]
) -> None:
    """End a silence now."""
    session = session_of(context)
    session.show(session.send("DELETE", f"/alerts/silences/{silence}", {}), _SILENCE)


@app.command()
def silences(
    context: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that are over; else those that hold.")
    ] = False,
    limit: Limit = 50,
) -> None:
    """List silences, the newest first."""
    session = session_of(context)
    holding = None if everything else "true"
    columns = (*_SILENCES, _ENDED) if everything else _SILENCES
    session.show_rows(session.pages("/alerts/silences", limit=limit, open=holding), columns)


@app.command()
def rules(
    context: typer.Context,
    limit: Limit = 50,
) -> None:
    """List the rules, with the ids that a silence takes."""
    session = session_of(context)
    rows = session.pages("/alerts/rules", limit=limit)
    if session.output is Output.TABLE:
        rows = (
            row | {"shown_threshold": _with_unit(row["threshold"], row["unit"])} for row in rows
        )
    session.show_rows(rows, _RULES)


def _written(rows: Iterable[Json]) -> Iterator[Json]:
    """The alerts with their values as people write them."""
    for row in rows:
        yield row | {
            "shown_value": _with_unit(row["value"], row["unit"]),
            "shown_threshold": _with_unit(row["threshold"], row["unit"]),
        }


def _with_unit(value: float, unit: str) -> str:
    if unit == "ms":
        return duration(value)
    return f"{value:,.1f}".removesuffix(".0") + _UNITS.get(unit, " " + unit)
