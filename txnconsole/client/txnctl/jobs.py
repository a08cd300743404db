"""``txnctl jobs``: background jobs, how far they are and what came of each item."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from txnconsole.client.txnctl.render import Column, exact, moment, plain
from txnconsole.client.txnctl.session import Json, Limit, Output, Session, Why, session_of
from txnconsole.client.wire import segments

app = typer.Typer(help="See background jobs, and cancel them.", no_args_is_help=True)

JobID = Annotated[
    str, typer.Argument(metavar="JOB", help="Its number; of a pipeline run run-<number>.")
]
State = Annotated[str | None, typer.Option(help="queued, running, done, failed or cancelled")]
Who = Annotated[str | None, typer.Option(help="Who started it.")]
_UNFINISHED = {"queued", "running"}
_POLL_SECONDS = 0.3

_LIST = (
    Column("JOB", "id", exact, right=True),
    Column("KIND", "kind"),
    Column("STATE", "state"),
    Column("TOTAL", "progress.total", right=True),
    Column("DONE", "progress.done", right=True),
    Column("FAILED", "progress.failed", right=True),
    Column("WHO", "who", prose=True),
    Column("REASON", "reason", prose=True),
    Column("CREATED", "created_at", moment),
)
_JOB = (
    ("job", "id", exact),
    ("kind", "kind", plain),
    ("state", "state", plain),
    ("who", "who", plain),
    ("reason", "reason", plain),
    ("parameters", "parameters", plain),
    ("items", "progress.total", plain),
    ("done", "progress.done", plain),
    ("failed", "progress.failed", plain),
    ("error", "error", plain),
    ("worker", "worker", plain),
    ("created", "created_at", moment),
    ("started", "started_at", moment),
    ("ended", "ended_at", moment),
    ("cancelled by", "cancel_requested_by", plain),
)
ITEMS = (
    Column("ITEM", "number", exact, right=True),
    Column("OBJECT", "object", exact),
    Column("STATE", "state"),
    Column("RESULT", "result"),
    Column("DETAIL", "detail", prose=True),
    Column("ENDED", "ended_at", moment),
)


@app.command("list")
def list_them(
    context: typer.Context,
    state: State = None,
    kind: Annotated[str | None, typer.Option(help="bulk_abort, or a pipeline job's")] = None,
    who: Who = None,
    limit: Limit = 50,
) -> None:
    """List background jobs, the newest first."""
    session = session_of(context)
    rows = session.pages("/jobs", limit=limit, state=state, kind=kind, who=who)
    session.show_rows(rows, _LIST)


@app.command()
def describe(
    context: typer.Context,
    job: JobID,
    state: Annotated[
        str | None, typer.Option(help="Only items in it: pending, done or failed.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Show so many items at most.")] = 50,
) -> None:
    """Show a job and what came of its items."""
    session = session_of(context)
    found = session.get(f"/jobs/{segments(job)}")
    items = session.pages(f"/jobs/{segments(job)}/items", limit=limit, state=state)
    if session.output is Output.JSON:
        session.show_json(found | {"items": list(items)})
        return
    session.show(found, _JOB)
    session.show_rows(items, ITEMS)


@app.command()
def cancel(
    context: typer.Context,
    job: JobID,
    reason: Why = "",
) -> None:
    """Have a job stop after the step that is under way; what is done stays done."""
    session = session_of(context)
    session.show(session.send("POST", f"/jobs/{segments(job)}/cancel", {"reason": reason}), _JOB)


def follow(session: Session, job: Json) -> Json:
    """Show a job's progress until it has ended; return it as it is then."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=session.err,
        disable=session.output is Output.JSON or not session.err.is_terminal,
    ) as progress:
        task = progress.add_task(f"job {job['id']}", total=job["progress"]["total"])
        while job["state"] in _UNFINISHED:
            time.sleep(_POLL_SECONDS)
            job = session.get(f"/jobs/{job['id']}")
            tried = job["progress"]["done"] + job["progress"]["failed"]
            progress.update(task, completed=tried)
    return job
