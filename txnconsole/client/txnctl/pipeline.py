"""``txnctl pipeline``: Spark jobs, their runs and what came of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer

from txnconsole.client.txnctl.jobs import State, Who, follow
from txnconsole.client.txnctl.render import Column, exact, moment, plain, visible
from txnconsole.client.txnctl.session import FAILED, Json, Limit, Output, Session, Why, session_of

app = typer.Typer(help="Run the Spark jobs, and see what came of them.", no_args_is_help=True)

RunID = Annotated[int, typer.Argument(metavar="RUN", min=1, help="Its number.")]
Wait = Annotated[
    bool, typer.Option(help="Until it has ended; exit code 1 unless it is done without findings.")
]


def _parameters(parameters: Sequence[Json]) -> str:
    return ", ".join(each["name"] + ("" if each["required"] else "?") for each in parameters) or "–"


_JOBS = (
    Column("JOB", "kind"),
    Column("PARAMETERS", "parameters", _parameters, prose=True),
    Column("DOES", "does", prose=True),
)
_RUNS = (
    Column("RUN", "id", exact, right=True),
    Column("JOB", "kind"),
    Column("STATE", "state"),
    Column("STAGE", "stage.name", prose=True),
    Column("DONE", "stage.done", right=True),
    Column("OF", "stage.total", right=True),
    Column("FINDINGS", "found"),
    Column("WHO", "who", prose=True, spare=True),
    Column("REASON", "reason", prose=True, spare=True),
    Column("CREATED", "created_at", moment),
    Column("ENDED", "ended_at", moment),
)
_RUN = (
    ("run", "id", exact),
    ("job", "kind", plain),
    ("parameters", "parameters", plain),
    ("state", "state", plain),
    ("stage", "stage.name", plain),
    ("findings", "found", plain),
    ("figures", "figures", plain),
    ("error", "error", plain),
    ("started by", "who", plain),
    ("reason", "reason", plain),
    ("repeats", "repeats", exact),
    ("created", "created_at", moment),
    ("started", "started_at", moment),
    ("ended", "ended_at", moment),
    ("cancelled by", "cancel_requested_by", plain),
)


@app.command("jobs")
def list_jobs(context: typer.Context) -> None:
    """List the jobs that can be run, with their parameters; those with a ? may be left out."""
    session = session_of(context)
    session.show_rows(session.get("/pipeline/jobs")["items"], _JOBS)


@app.command("runs")
def list_runs(
    context: typer.Context,
    kind: Annotated[str | None, typer.Option(help="Only of this job.")] = None,
    state: State = None,
    who: Who = None,
    limit: Limit = 50,
) -> None:
    """List runs, the newest first."""
    session = session_of(context)
    rows = session.pages("/pipeline/runs", limit=limit, kind=kind, state=state, who=who)
    session.show_rows(rows, _RUNS)


@app.command()
def describe(context: typer.Context, run: RunID) -> None:
    """Show a run: how far it is, its result and the end of its log."""
    session = session_of(context)
    _show(session, session.get(f"/pipeline/runs/{run}"))


@app.command()
def start(
    context: typer.Context,
    job: Annotated[str, typer.Argument(metavar="JOB", help="As 'pipeline jobs' lists them.")],
    parameters: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="What the job is asked for.")
    ] = None,
    reason: Why = "",
    wait: Wait = False,
) -> None:
    """Start a run; a worker carries it out."""
    session = session_of(context)
    given = dict(map(_pair, parameters or []))
    body = {"kind": job, "parameters": given, "reason": reason}
    _started(session, session.send("POST", "/pipeline/runs", body), wait=wait)


@app.command()
def repeat(context: typer.Context, run: RunID, reason: Why = "", wait: Wait = False) -> None:
    """Start another run with the same parameters."""
    session = session_of(context)
    again = session.send("POST", f"/pipeline/runs/{run}/repeat", {"reason": reason})
    _started(session, again, wait=wait)


@app.command()
def cancel(context: typer.Context, run: RunID, reason: Why = "") -> None:
    """Cancel a run; what it has committed stays."""
    session = session_of(context)
    session.show(session.send("POST", f"/pipeline/runs/{run}/cancel", {"reason": reason}), _RUN)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not a parameter; write NAME=VALUE.")
    return name, value


def _started(session: Session, run: Json, *, wait: bool) -> None:
    """Show a run that has just been started, or what became of it.

    Raises:
        typer.Exit: it is not done, or it has findings.
    """
    if not wait:
        session.show(run, _RUN)
        return
    session.say(f"Run {run['id']} has started; it goes on without this terminal.")
    follow(session, session.get(f"/jobs/run-{run['id']}"))
    ended = session.get(f"/pipeline/runs/{run['id']}")
    _show(session, ended)
    if ended["state"] != "done" or ended["found"]:
        raise typer.Exit(FAILED)


def _show(session: Session, run: Json) -> None:
    session.show(run, _RUN)
    if session.output is Output.TABLE:
        if run["result"] is not None:
            # What an audit's rules say is as long as a page, and the same each time.
            shown = {name: each for name, each in run["result"].items() if name != "rules"}
            session.say("\n" + json.dumps(shown, indent=2))
        if run["log_tail"]:
            session.say("\n" + visible(run["log_tail"].rstrip(), but="\n\t"))
