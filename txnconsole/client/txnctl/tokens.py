"""``txnctl tokens`` and ``txnctl whoami``: who may do what, with which token."""

from __future__ import annotations

from typing import Annotated

import typer

from txnconsole.client.txnctl.render import Column, exact, moment, plain
from txnconsole.client.txnctl.session import FAILED, Limit, milliseconds, session_of

app = typer.Typer(help="See, create and revoke tokens.", no_args_is_help=True)

_DAY = 86_400

_LIST = (
    Column("TOKEN", "id", exact, right=True),
    Column("HINT", "hint"),
    Column("USER", "user", prose=True),
    Column("STATE", "state"),
    Column("ROLES", "roles", prose=True),
    Column("TOPICS", "topics", prose=True),
    Column("LAST USED", "last_used_at", moment),
    Column("EXPIRES", "expires_at", moment),
)
_CREATED = (
    ("token", "token.id", exact),
    ("user", "token.user", plain),
    ("roles", "token.roles", plain),
    ("topics", "token.topics", plain),
    ("expires", "token.expires_at", moment),
    ("secret", "secret", plain),
)
_ME = (
    ("name", "name", plain),
    ("roles", "roles", plain),
    ("topics", "topics", plain),
    ("token", "token.id", exact),
    ("expires", "token.expires_at", moment),
    ("permissions", "permissions", plain),
)


@app.command("list")
def list_them(
    context: typer.Context,
    user: Annotated[str | None, typer.Option(help="Only of this user.")] = None,
    ended: Annotated[
        bool, typer.Option("--ended", help="Also those that were revoked or have expired.")
    ] = False,
    limit: Limit = 50,
) -> None:
    """List the tokens that are valid, the newest first."""
    session = session_of(context)
    rows = session.pages("/tokens", limit=limit, user=user, ended=str(ended).lower())
    session.show_rows(rows, _LIST)


@app.command()
def create(
    context: typer.Context,
    user: Annotated[str, typer.Argument(metavar="USER", help="Whose it is; the user must exist.")],
    role: Annotated[
        list[str],
        typer.Option(help="viewer, producer, consumer, operator or admin; may be given again."),
    ],
    topics: Annotated[
        list[str] | None,
        typer.Option(help="Only for topics like 'public/default/*'; may be given again."),
    ] = None,
    days: Annotated[
        float | None, typer.Option(min=0.001, help="Expires after so many; else never.")
    ] = None,
) -> None:
    """Create a token. Its secret is shown now and never again."""
    session = session_of(context)
    lifetime = milliseconds("--days", None if days is None else days * _DAY)
    body = {"user": user, "roles": role, "topics": topics or None, "lifetime_ms": lifetime}
    made = session.send("POST", "/tokens", body)
    session.show(made, _CREATED)
    if made["secret"] is None:
        session.err.print(
            f"The answer with the secret was lost on its way. Revoke token {made['token']['id']}"
            " and create another one."
        )
        raise typer.Exit(FAILED)


@app.command()
def revoke(
    context: typer.Context, token: Annotated[int, typer.Argument(metavar="TOKEN", min=1)]
) -> None:
    """Revoke a token for good."""
    session = session_of(context)
    session.send("DELETE", f"/tokens/{token}", {})
    session.say(f"token {token} is revoked")


def whoami(context: typer.Context) -> None:
    """Show whose token is used, and what it may do."""
    session = session_of(context)
    session.show(session.get("/me"), _ME)
