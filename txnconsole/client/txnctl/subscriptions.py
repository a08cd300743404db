"""``txnctl subscriptions``: what is acknowledged, held, in flight and left."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from txnconsole.client.calls import topic_path
from txnconsole.client.txnctl import deletion
from txnconsole.client.txnctl.deletion import Force, Yes
from txnconsole.client.txnctl.names import SubscriptionArgument, TopicArgument, subscription_path
from txnconsole.client.txnctl.render import Column, exact, plain
from txnconsole.client.txnctl.session import Output, Why, milliseconds, session_of
from txnconsole.quantities import duration

app = typer.Typer(help="See what is acknowledged, held and left.", no_args_is_help=True)


def _ranges(runs: list[Any]) -> str:
    shown = [
        str(run["first"]) if run["first"] == run["last"] else f"{run['first']}–{run['last']}"
        for run in runs[:5]
    ]
    more = len(runs) - len(shown)
    return (", ".join(shown) + (f" and {more} more" if more else "")) or "–"


def _pending(acks: list[Any]) -> str:
    shown = [f"{ack['txn_id']}: {_ranges(ack['ranges'])}" for ack in acks[:3]]
    more = len(acks) - len(shown)
    return ("; ".join(shown) + (f" and {more} more" if more else "")) or "–"


def _in_flight(delivered: dict[str, Any]) -> str:
    return "; ".join(f"{who}: {_ranges(runs)}" for who, runs in delivered.items()) or "–"


_LIST = (
    Column("SUBSCRIPTION", "subscription"),
    Column("TYPE", "type"),
    Column("BEGINS", "initial_position"),
    Column("ACK TIMEOUT", "ack_timeout_ms", duration, right=True),
)
_CURSORS = (
    Column("PARTITION", "partition", exact, right=True),
    Column("MARK-DELETE", "mark_delete_offset", exact, right=True),
    Column("ACKED ABOVE", "acked", _ranges, prose=True),
    Column("PENDING ACKS", "pending_acks", _pending, prose=True),
    Column("IN FLIGHT", "delivered", _in_flight, prose=True),
    Column("BACKLOG", "backlog", right=True),
    Column("BLOCKED", "blocked", right=True),
)


@app.command("list")
def list_them(context: typer.Context, topic: TopicArgument) -> None:
    """List a topic's subscriptions."""
    session = session_of(context)
    session.show_rows(session.pages(f"{topic_path(topic)}/subscriptions", limit=None), _LIST)


@app.command()
def describe(
    context: typer.Context, topic: TopicArgument, subscription: SubscriptionArgument
) -> None:
    """Show a subscription's state in every partition."""
    session = session_of(context)
    answer = session.get(subscription_path(topic, subscription))
    if session.output is Output.JSON:
        session.show_json(answer)
        return
    session.show(
        answer,
        (
            ("subscription", "subscription", plain),
            ("type", "type", plain),
            ("ack timeout", "ack_timeout_ms", duration),
        ),
    )
    session.show_rows(answer["partitions"], _CURSORS)


@app.command()
def create(
    context: typer.Context,
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    type_: Annotated[
        str | None,
        typer.Option("--type", help="EXCLUSIVE, FAILOVER, SHARED (if none) or KEY_SHARED."),
    ] = None,
    initial_position: Annotated[
        str | None, typer.Option(help="earliest (if none) or latest.")
    ] = None,
    ack_timeout: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds; 30 if none.")
    ] = None,
) -> None:
    """Create a subscription, or find it; one that exists keeps its settings, and is refused where
    another is given here."""
    session = session_of(context)
    body = {
        "type": type_ and type_.upper(),
        "initial_position": initial_position,
        "ack_timeout_ms": milliseconds("--ack-timeout", ack_timeout),
    }
    session.show_row(session.send("PUT", subscription_path(topic, subscription), body), _LIST)


@app.command()
def delete(
    context: typer.Context,
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    force: Force = False,
    yes: Yes = False,
) -> None:
    """Delete a subscription with its position; the topic's messages stay."""
    session = session_of(context)
    if not yes:
        session.confirm(f"Delete {subscription} of {topic} with its position?")
    path = subscription_path(topic, subscription)
    deletion.delete(session, f"{subscription} of {topic}", path, force=force)


@app.command()
def seek(
    context: typer.Context,
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    offset: Annotated[int | None, typer.Option(min=0, help="Go on here.")] = None,
    timestamp: Annotated[str | None, typer.Option(help="Go on from then (RFC 3339).")] = None,
    earliest: Annotated[bool, typer.Option("--earliest", help="From the log's start.")] = False,
    latest: Annotated[bool, typer.Option("--latest", help="Only what comes from now on.")] = False,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this one.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Abort the transactions that hold acknowledgements.")
    ] = False,
    reason: Why = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Go on from another place: what lies before counts as acknowledged, the rest comes again."""
    session = session_of(context)
    if not yes and session.output is Output.TABLE:
        session.confirm(f"Move {subscription} of {topic}?")
    body = {
        "offset": offset,
        "timestamp": timestamp,
        "earliest": earliest or None,
        "latest": latest or None,
        "partition": partition,
        "force": force,
        "reason": reason,
    }
    answer = session.send("POST", f"{subscription_path(topic, subscription)}/seek", body)
    if session.output is Output.JSON:
        session.show_json(answer)
        return
    session.show_rows(answer["partitions"], _CURSORS)
    if answer["ended_transactions"]:
        session.say(f"Aborted: {', '.join(answer['ended_transactions'])}.")


@app.command("force-abort")
def force_abort(
    context: typer.Context,
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    txn_id: Annotated[str, typer.Argument(metavar="TXN_ID")],
    reason: Why,
) -> None:
    """Give back what an orphan holds that its coordinator does not know."""
    session = session_of(context)
    path = f"{subscription_path(topic, subscription)}/force-abort"
    answer = session.send("POST", path, {"txn_id": txn_id, "reason": reason})
    session.show(answer, (("messages given back", "messages", plain),))
