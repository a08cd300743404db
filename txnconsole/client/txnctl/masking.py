"""``txnctl masking``: what viewers do not see of messages."""

from __future__ import annotations

from typing import Annotated

import typer

from txnconsole.client.txnctl.render import Column, exact, moment, plain
from txnconsole.client.txnctl.session import session_of

app = typer.Typer(help="See, add and delete masking rules.", no_args_is_help=True)

_LIST = (
    Column("RULE", "id", exact, right=True),
    Column("TOPICS", "topics", exact),
    Column("PART", "part"),
    Column("NAME", "name"),
    Column("EFFECT", "effect"),
    Column("BY", "created_by", prose=True),
    Column("SINCE", "created_at", moment),
)
_RULE = (
    ("rule", "id", exact),
    ("topics", "topics", exact),
    ("part", "part", plain),
    ("name", "name", plain),
    ("effect", "effect", plain),
)


@app.command("list")
def list_them(context: typer.Context) -> None:
    """List the rules; all that match a topic apply, in this order."""
    session = session_of(context)
    session.show_rows(session.pages("/masking-rules", limit=None), _LIST)


@app.command()
def add(
    context: typer.Context,
    topics: Annotated[
        str, typer.Argument(metavar="TOPICS", help="A pattern such as 'public/default/*'.")
    ],
    part: Annotated[str, typer.Argument(metavar="PART", help="payload, field, key, or property")],
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Of a field its path, such as card.number or '**.iban'."
        ),
    ] = "",
    effect: Annotated[
        str, typer.Option(help="remove, replace (by ***), or tail (its last four characters)")
    ] = "replace",
) -> None:
    """Mask something for viewers from now on."""
    session = session_of(context)
    body = {"topics": topics, "part": part, "name": name, "effect": effect}
    session.show(session.send("POST", "/masking-rules", body), _RULE)


@app.command()
def delete(
    context: typer.Context, rule: Annotated[int, typer.Argument(metavar="RULE", min=1)]
) -> None:
    """Let viewers see again what a rule has hidden."""
    session = session_of(context)
    session.send("DELETE", f"/masking-rules/{rule}", {})
    session.say(f"rule {rule} is deleted")
