"""``txnctl topics``."""

from __future__ import annotations

from typing import Annotated

import typer

from txnconsole.client.calls import topic_path
from txnconsole.client.txnctl import deletion
from txnconsole.client.txnctl.deletion import Force, Yes
from txnconsole.client.txnctl.names import TopicArgument
from txnconsole.client.txnctl.render import Column, exact
from txnconsole.client.txnctl.session import Limit, Output, milliseconds, session_of
from txnconsole.quantities import duration

app = typer.Typer(help="See, create and delete topics.", no_args_is_help=True)

_LIST = (
    Column("TOPIC", "topic"),
    Column("PARTITIONS", "partitions", exact, right=True),
    Column("BUFFER", "buffer"),
    Column("RETENTION", "retention_ms", duration, right=True),
    Column("RETENTION BYTES", "retention_bytes", right=True, spare=True),
    Column("DEDUPLICATION", "deduplication", spare=True),
)
_PARTITIONS = (
    Column("PARTITION", "partition"),
    Column("BROKER", "broker"),
    Column("STATE", "state"),
    Column("LAST", "last_offset", exact, right=True),
    Column("STABLE", "stable_position", exact, right=True),
    Column("ONGOING", "ongoing_txns", right=True),
    Column("ABORTED", "aborted_txns", right=True, spare=True),
)


@app.command("list")
def list_them(
    context: typer.Context,
    system: Annotated[bool, typer.Option("--system", help="The engine's own too.")] = False,
    limit: Limit = 200,
) -> None:
    """List topics."""
    session = session_of(context)
    include = "true" if system else None
    session.show_rows(session.pages("/topics", limit=limit, include_system=include), _LIST)


@app.command()
def describe(context: typer.Context, topic: TopicArgument) -> None:
    """Show a topic and where its partitions stand."""
    session = session_of(context)
    found = session.get(topic_path(topic))
    partitions = list(session.pages(f"{topic_path(topic)}/partitions", limit=None))
    if session.output is Output.JSON:
        session.show_json(found | {"partition_states": partitions})
        return
    session.show_row(found, _LIST)
    session.show_rows(partitions, _PARTITIONS)


@app.command()
def create(
    context: typer.Context,
    topic: TopicArgument,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="1 when it is left out of a new topic.")
    ] = None,
    buffer: Annotated[
        str | None,
        typer.Option(help="marker or sidecar; marker when it is left out of a new topic."),
    ] = None,
    retention: Annotated[float | None, typer.Option(min=0, help="Hours.")] = None,
    retention_bytes: Annotated[
        int | None, typer.Option(min=1, help="What is kept at least, for each partition.")
    ] = None,
) -> None:
    """Create a topic, find it as it is, or let it grow partitions."""
    session = session_of(context)
    body = {
        "partitions": partitions,
        "buffer": buffer,
        "retention_ms": milliseconds("--retention", retention and retention * 3600),
        "retention_bytes": retention_bytes,
    }
    session.show_row(session.send("PUT", topic_path(topic), body), _LIST)


@app.command()
def delete(
    context: typer.Context, topic: TopicArgument, force: Force = False, yes: Yes = False
) -> None:
    """Delete a topic with all its messages."""
    session = session_of(context)
    if not yes:
        session.confirm(f"Delete {topic} with all its messages and subscriptions?")
    deletion.delete(session, topic, topic_path(topic), force=force)
