"""The command tree, the options that all commands share, and what an error becomes."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from copy import copy
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from rich.console import Console

from txnconsole.client.blocking import TransportOptions
from txnconsole.client.client import Client
from txnconsole.client.errors import TxnConsoleError, UnexpectedAnswer, Unreachable
from txnconsole.client.retries import RetryPolicy
from txnconsole.client.txnctl import (
    alerts,
    audit,
    bulk_abort,
    coordinators,
    invariants,
    jobs,
    masking,
    messages,
    partitions,
    pipeline,
    subscriptions,
    tokens,
    topics,
    transactions,
)
from txnconsole.client.txnctl.session import FAILED, UNAVAILABLE, Output, Session, session_of

_LOCAL = "http://127.0.0.1:8000"
_WHO_ASKS = (
    "Give a token in TXNCONSOLE_TOKEN. On the server, 'manage.py create_token --user NAME"
    " --role operator' prints one."
)
_EXIT_CODES = (
    "Exit codes: 0 done, 1 failed, declined or found wrong, 2 malformed, 3 no such thing, 4 not"
    " allowed, 5 a conflict, 6 a limit, 7 unavailable (worth another try)."
)
_EXIT_OF_STATUS = {400: 2, 401: 4, 403: 4, 404: 3, 409: 5, 413: 6, 429: 6, 502: 7, 503: 7, 504: 7}
_MALFORMED = 2
_INTERRUPTED = 130

app = typer.Typer(
    name="txnctl",
    help="See transactions, end those that hold others up, produce and consume.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
transactions.app.command("bulk-abort")(bulk_abort.bulk_abort)
app.add_typer(transactions.app, name="transactions")
app.add_typer(partitions.app, name="partitions")
app.add_typer(subscriptions.app, name="subscriptions")
app.add_typer(coordinators.app, name="coordinators")
app.add_typer(topics.app, name="topics")
app.add_typer(jobs.app, name="jobs")
app.add_typer(alerts.app, name="alerts")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(audit.app, name="audit")
app.add_typer(masking.app, name="masking")
app.add_typer(tokens.app, name="tokens")
app.command("whoami")(tokens.whoami)
app.command("invariants")(invariants.invariants)
app.command("produce")(messages.produce)
app.command("consume")(messages.consume)
app.command("tail")(messages.tail)


@app.callback()
def connect(
    context: typer.Context,
    url: Annotated[
        str, typer.Option(envvar="TXNCONSOLE_URL", help="Where the server is.")
    ] = _LOCAL,
    token: Annotated[
        str,
        typer.Option(envvar="TXNCONSOLE_TOKEN", help="Who asks; better in the environment."),
    ] = "",
    output: Annotated[
        Output, typer.Option("--output", "-o", help="For people, or for programs.")
    ] = Output.TABLE,
    patience: Annotated[
        float, typer.Option(min=0, help="Seconds to go on trying when the server is away.")
    ] = 10.0,
) -> None:
    """Connect."""
    retry = RetryPolicy(deadline=patience)

    def connected() -> Client:
        if not token:
            raise ValueError(_WHO_ASKS)
        client = Client(url, token, TransportOptions(retry=retry))
        context.call_on_close(client.close)
        return client

    context.obj = Session(connected, output)


def command() -> Any:
    """The whole tree. ``--output`` may also come after a command, where people expect it."""
    tree = typer.main.get_command(app)
    [before] = [option for option in tree.params if option.name == "output"]
    after: Any = copy(before)
    after.default, after.expose_value, after.callback = None, False, _show_as
    for leaf in _leaves(tree):
        leaf.params.append(after)
    return tree


def _leaves(tree: Any) -> Iterator[Any]:
    for each in tree.commands.values():
        yield from _leaves(each) if hasattr(each, "commands") else [each]


def _show_as(context: typer.Context, _option: object, output: str | None) -> None:
    if output is not None:
        session_of(context).output = Output(output)


def main() -> None:
    """Run, and turn what went wrong into a message and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # What the terminal cannot show stops nothing.
            stream.reconfigure(errors="backslashreplace")
    err = Console(stderr=True, highlight=False)
    try:
        command()(prog_name="txnctl")
    except TxnConsoleError as error:
        err.print(f"{error.code}: {error}", style="red", markup=False, soft_wrap=True)
        for field in error.data.get("errors") or []:
            if str(field.get("message")).rstrip(".") not in str(error):
                err.print(
                    f"  {field.get('field')}: {field.get('message')}", markup=False, soft_wrap=True
                )
        sys.exit(exit_code(error))
    except KeyError as error:  # Commands read the members of answers by their names.
        text = f"{UnexpectedAnswer.__name__}: An answer has no {error}: it is another server's, or"
        err.print(f"{text} another version's.", style="red", markup=False, soft_wrap=True)
        sys.exit(FAILED)
    except (ValueError, OSError) as error:
        err.print(str(error), style="red", markup=False, soft_wrap=True)
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        sys.exit(FAILED if full else _MALFORMED)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def exit_code(error: TxnConsoleError) -> int:
    """The exit code for a refusal or a failure."""
    if isinstance(error, Unreachable):
        return UNAVAILABLE
    code = _EXIT_OF_STATUS.get(error.status or 0, FAILED)
    if isinstance(error, UnexpectedAnswer) and code != UNAVAILABLE:
        return FAILED  # Another server's status tells nothing of what was asked for.
    return code
