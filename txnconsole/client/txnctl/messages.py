"""``txnctl produce``, ``consume`` and ``tail``: messages from and to a terminal."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from datetime import datetime
from errno import EPIPE
from io import TextIOWrapper
from itertools import chain, islice
from os import strerror
from queue import Empty, Queue
from select import POLLERR, poll
from threading import Event, Thread
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from txnconsole.client.answers import Message
from txnconsole.client.batching import BatchLimits
from txnconsole.client.consumer import Consumer
from txnconsole.client.errors import LogTruncated, TxnConsoleError
from txnconsole.client.reader import Isolation, Reader
from txnconsole.client.txnctl.names import SubscriptionArgument, TopicArgument
from txnconsole.client.txnctl.render import visible
from txnconsole.client.txnctl.session import Json, Output, Session, session_of
from txnconsole.quantities import counted

_LONG_POLL = 5.0
_BATCH = 500
_LINGER = 0.1
_STDOUT = 1
#: How bytes that are no UTF-8 pass through a text.
_AS_THEY_ARE = "surrogateescape"


def produce(
    context: typer.Context,
    topic: TopicArgument,
    message: Annotated[
        list[str] | None, typer.Option("--message", "-m", help="Repeatable; else lines of stdin.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="The same for all messages.")] = None,
    key_separator: Annotated[
        str | None, typer.Option(help="Split each line into key and payload here.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, help="That one; else by key, or any.")
    ] = None,
    transaction: Annotated[
        bool, typer.Option("--transaction", "-t", help="All of them in one, or none.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="The transaction's, in seconds.")] = 60.0,
) -> None:
    """Produce messages; exactly once, also when the connection breaks."""
    session = session_of(context)
    lines = iter(message) if message else _lines()
    with ExitStack() as stack:
        txn = None
        if transaction:
            txn = stack.enter_context(
                session.client.transaction(timeout=timeout, client="txnctl produce")
            )
        # What comes slowly is not kept back; a transaction's messages can wait for its end.
        limits = BatchLimits(linger=None if transaction else _LINGER)
        producer = stack.enter_context(session.client.producer(topic, limits=limits))
        progress = stack.enter_context(_progress(session))
        task = progress.add_task("produced", total=len(message) if message else None)
        count = 0
        for line in lines:
            own_key, payload = _split(line, key, key_separator)
            producer.send(
                payload.encode("utf-8", _AS_THEY_ARE), key=own_key, txn=txn, partition=partition
            )
            count += 1
            progress.advance(task)
    answer = {"topic": topic, "messages": count, "txn_id": txn.txn_id if txn else None}
    if session.output is Output.JSON:
        session.show_json(answer)
    else:
        session.say(counted(count, "message") + (f", committed as {txn.txn_id}" if txn else ""))


def consume(
    context: typer.Context,
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Stop after so many.")] = 100,
    wait: Annotated[float, typer.Option(min=0, help="Stop when none comes for so long.")] = 5.0,
    ack: Annotated[bool, typer.Option(help="Acknowledge what was printed.")] = True,
    name: Annotated[str | None, typer.Option(help="The consumer's name.")] = None,
) -> None:
    """Receive messages of a subscription, print them, acknowledge them."""
    session = session_of(context)
    consumer = session.client.consumer(topic, subscription, name=name)
    try:
        _consume(session, consumer, count=count, wait=wait, ack=ack)
    finally:
        if name is None:  # Nobody comes back under the name: let the next be served at once.
            with suppress(TxnConsoleError):
                consumer.leave()


def _consume(session: Session, consumer: Consumer, *, count: int, wait: float, ack: bool) -> None:
    left, kept = count, []
    try:
        while left > 0 and (messages := consumer.receive(min(left, _BATCH), wait=wait)):
            if not ack:  # Given back at the end, or they would be the next ones again.
                kept.append(messages)
            _print(session, messages)
            if ack:
                consumer.ack(*messages)
            left -= len(messages)
    finally:
        for messages in kept:
            consumer.nack(*messages)


def tail(
    context: typer.Context,
    topic: TopicArgument,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this one.")] = None,
    from_start: Annotated[bool, typer.Option("--from-start", help="All of the log.")] = False,
    from_offset: Annotated[
        int | None, typer.Option(min=0, help="From this offset on, in each partition.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after so many.")
    ] = None,
    follow: Annotated[bool, typer.Option(help="Wait for more.")] = True,
    isolation: Annotated[
        str, typer.Option(help="read_committed or read_uncommitted")
    ] = "read_committed",
) -> None:
    """Print a topic's messages as they become readable, those that come from now on if it is not
    told where to begin; no subscription is needed."""
    session = session_of(context)
    chosen: Isolation = "read_uncommitted" if isolation == "read_uncommitted" else "read_committed"
    if isolation != chosen:
        raise typer.BadParameter("write read_committed or read_uncommitted", param_hint="isolation")
    if from_start:
        if from_offset is not None:
            raise typer.BadParameter("give it or --from-start, not both", param_hint="from-offset")
        from_offset = 0
    numbers = range(session.client.topic(topic).partitions) if partition is None else [partition]
    readers = [
        session.client.reader(
            topic,
            number,
            isolation=chosen,
            from_offset=_end(session, topic, number) if from_offset is None else from_offset,
        )
        for number in numbers
    ]
    found = _following(session, readers) if follow else chain.from_iterable(readers)
    _print(session, islice(found, count))


def _end(session: Session, topic: str, partition: int) -> int:
    return session.client.partition(topic, partition).stable_position + 1


def _following(session: Session, readers: list[Reader]) -> Iterator[Message]:
    """Messages of all partitions as they come; each has a thread that waits for it. Where a log is
    truncated below what was printed, it goes on with what has taken the place, and says so."""
    arrived: Queue[Message | Exception] = Queue(maxsize=10_000)
    stopped = Event()

    def follow(reader: Reader) -> None:
        try:
            while not stopped.is_set():
                try:
                    messages = reader.fetch(wait=_LONG_POLL).messages
                except LogTruncated as error:
                    session.err.print(str(error), style="yellow", markup=False, soft_wrap=True)
                    continue
                for message in messages:
                    arrived.put(message)
        except Exception as error:
            arrived.put(error)

    for reader in readers:
        Thread(target=follow, args=(reader,), daemon=True).start()
    try:
        while True:
            try:
                message = arrived.get(timeout=0.5)
            except Empty:
                _require_reader()
                continue
            if isinstance(message, Exception):
                raise message
            yield message
    finally:
        stopped.set()


def _require_reader() -> None:
    """Check that standard output is no pipe whose reader has gone, without writing to it.

    Raises:
        BrokenPipeError: it is, as writing would find.
    """
    output = poll()
    output.register(_STDOUT, 0)
    if any(event & POLLERR for _, event in output.poll(0)):
        raise BrokenPipeError(EPIPE, strerror(EPIPE))


def _lines() -> Iterator[str]:
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors=_AS_THEY_ARE)
    for line in sys.stdin or ():  # None when it is closed.
        yield line.rstrip("\n")


def _split(line: str, key: str | None, separator: str | None) -> tuple[str | None, str]:
    if separator is None:
        return key, line
    if not separator:
        raise ValueError("--key-separator is empty.")
    own, found, payload = line.partition(separator)
    if not found:
        raise ValueError(f"The line {line[:60]!r} has no {separator!r} between key and payload.")
    return own, payload


def _print(session: Session, messages: Iterable[Message]) -> None:
    for message in messages:
        if session.output is Output.JSON:
            session.show_json(_json(message))
        else:
            text = message.payload.decode("utf-8", "backslashreplace")
            text = "(masked: the token may not read payloads)" if message.payload_masked else text
            key = f" {visible(message.key)}" if message.key is not None else ""
            shown = visible(text, but="\t")
            typer.echo(f"{message.partition}@{message.offset}{key}\t{shown}")


def _json(message: Message) -> Json:
    """The message as the contract writes it in JSON."""
    try:
        payload, encoding = message.payload.decode(), "utf-8"
    except UnicodeDecodeError:
        payload, encoding = base64.b64encode(message.payload).decode(), "base64"
    return {
        "message_id": message.message_id,
        "offset": message.offset,
        "partition": message.partition,
        "kind": message.kind,
        "txn_id": message.txn_id,
        "key": message.key,
        "payload": payload,
        "payload_encoding": encoding,
        "properties": message.properties,
        "event_time": message.event_time and _time(message.event_time),
        "publish_time": _time(message.publish_time),
        "producer_name": message.producer_name,
        "sequence_id": message.sequence_id,
        "redelivery_count": message.redelivery_count,
        "payload_masked": message.payload_masked,
    }


def _time(moment: datetime) -> str:
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _progress(session: Session) -> Progress:
    """On standard error, and only where somebody looks."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=session.err,
        transient=True,
        disable=not session.err.is_terminal,
    )
