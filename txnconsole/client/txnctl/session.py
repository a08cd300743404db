"""What every command has in hand: the connection, and how its answers are shown."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from math import isfinite
from typing import Annotated, Any

import typer
from rich.console import Console

from txnconsole.client.calls import new_key
from txnconsole.client.client import Client
from txnconsole.client.txnctl.render import Column, Fields, fields_table, rows_table
from txnconsole.client.wire import JSON, Call, encode

Json = Any
#: The option ``--reason`` of what an operator does.
Why = Annotated[str, typer.Option("--reason", help="Why; the audit log keeps it.")]
#: The option ``--limit`` of a list.
Limit = Annotated[int, typer.Option(min=1, help="Show so many at most.")]
#: An option that is a moment; the server reads it.
Moment = Annotated[str | None, typer.Option(help="A time, e.g. 2026-03-01T14:00:00Z.")]
_NO_QUERY: Mapping[str, Any] = {}
_PAGE = 500
_WIDE = 1000
#: Columns of a terminal in which a table's columns would be folded letter by letter.
_NARROW = 60
#: The exit code of what failed, was declined, or did not turn out as it should.
FAILED = 1
#: The exit code of what could not be asked, or not all of it: worth another try.
UNAVAILABLE = 7


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


class Session:
    """One run of ``txnctl``.

    Attributes:
        out, err: standard output and error; progress goes to the latter.
    """

    def __init__(self, connect: Callable[[], Client], output: Output) -> None:
        self._connect = connect
        self.output = output
        # What goes into a pipe or a file is not folded.
        folds = sys.stdout is not None and sys.stdout.isatty()
        self.out = Console(highlight=False, width=None if folds else _WIDE)
        self.err = Console(stderr=True, highlight=False)
        self._cut: int | None = None

    @cached_property
    def client(self) -> Client:
        """The connection, made when the first command needs it: help needs none."""
        return self._connect()

    def get(self, path: str, **query: Any) -> Json:
        """Ask; parameters that are None or empty are left out."""
        given = {name: value for name, value in query.items() if value not in (None, [], ())}
        answer = self.client.perform(Call(method="GET", path=path, query=given, answer=dict))
        self._tell_missing(answer)
        return answer

    def send(
        self, method: str, path: str, body: Mapping[str, Any], query: Mapping[str, Any] = _NO_QUERY
    ) -> Json:
        """Change something; members that are None are left out. It is sent again when no answer
        comes, under a key of its own."""
        return self.client.perform(_change(method, path, body, query))

    def end(self, path: str, body: Mapping[str, Any], *, wait: float) -> Json:
        """End a transaction and wait so many seconds until that has been carried out."""
        return self.client.poll(
            lambda wait_ms: _change("POST", path, {**body, "wait_ms": wait_ms}, wait_ms=wait_ms),
            wait=wait,
            done=lambda answer: answer["status"] in ("COMMITTED", "ABORTED"),
            decides=True,
        )

    def pages(self, path: str, *, limit: int | None, **query: Any) -> Iterator[Json]:
        """The items of a list, page by page, ``limit`` at most. Where there are more, whoever
        shows them as rows is told."""
        left, cursor, self._cut = limit, None, None
        while left is None or left > 0:
            size = _PAGE if left is None else min(left, _PAGE)
            page = self.get(path, limit=size, cursor=cursor, **query)
            yield from page["items"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return
            left = None if left is None else left - len(page["items"])
        self._cut = limit

    def show_rows(self, rows: Iterable[Json], columns: Sequence[Column]) -> None:
        """A table for people, or where it does not fit a narrow terminal a block for each row; for
        programs a JSON array, a row a line, as they come. Of :meth:`pages` it tells when
        there are more."""
        self._show_rows(rows, columns)
        if self._cut is not None:
            self.err.print(f"There are more than these {self._cut}.", style="dim")
            self._cut = None

    def _show_rows(self, rows: Iterable[Json], columns: Sequence[Column]) -> None:
        if self.output is Output.JSON:
            before = "["
            for row in rows:
                typer.echo(f"{before}\n{_written(row)}", nl=False)
                before = ","
            typer.echo("[]" if before == "[" else "\n]")
            return
        found = list(rows)
        made = rows_table(found, columns, width=self.out.width)
        if made is None or (self.out.width < _NARROW and len(made[1]) < len(columns)):
            fields = [(column.title.lower(), column.path, column.show) for column in columns]
            for row in found:
                self.out.print(fields_table(row, fields), "")
            return
        table, shown = made
        self.out.print(table)
        left_out = [column.title for column in columns if column not in shown]
        if left_out:
            self.err.print(f"Not shown, for want of room: {', '.join(left_out)}.", style="dim")

    def show_row(self, row: Json, columns: Sequence[Column]) -> None:
        """One object, as a row."""
        if self.output is Output.JSON:
            self.show_json(row)
        else:
            self.show_rows([row], columns)

    def show(self, answer: Json, fields: Fields) -> None:
        """One object."""
        if self.output is Output.JSON:
            self.show_json(answer)
        else:
            self.out.print(fields_table(answer, fields))

    def show_json(self, value: Json) -> None:
        """One JSON value, on a line."""
        typer.echo(_written(value))

    def _tell_missing(self, answer: Json) -> None:
        """What an answer lacks, because a database did not answer, on standard error."""
        missing = answer.get("unavailable") or []
        if isinstance(missing, Mapping):
            missing = [{"broker": name, "detail": reason} for name, reason in missing.items()]
        for each in missing:
            name = each.get("partition") or each.get("broker")
            self.err.print(
                f"{name} is missing: {each['detail']}", style="yellow", markup=False, soft_wrap=True
            )

    def confirm(self, question: str) -> None:
        """Ask on standard error; standard output is for what was asked for.

        Raises:
            typer.Exit: the answer is no, or there is none.
        """
        self.err.print(f"{question} [y/N]: ", end="", markup=False, soft_wrap=True)
        answer = "" if sys.stdin is None else sys.stdin.readline()
        if answer.strip().lower() not in {"y", "yes"}:
            self.err.print("\nNothing was done.")
            raise typer.Exit(FAILED)

    def say(self, text: str) -> None:
        """Tell people something that programs do not need."""
        if self.output is Output.TABLE:
            self.out.print(text, markup=False)


def _written(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def _change(
    method: str,
    path: str,
    body: Mapping[str, Any],
    query: Mapping[str, Any] = _NO_QUERY,
    *,
    wait_ms: int = 0,
) -> Call[Json]:
    given = {name: value for name, value in body.items() if value is not None}
    return Call(
        method=method,
        path=path,
        query=query,
        body=encode(given, JSON),
        answer=dict,
        wait_ms=wait_ms,
        idempotency_key=new_key(),
    )


def milliseconds(option: str, seconds: float | None) -> int | None:
    """Seconds that an option gives, or None, as the contract has them.

    Raises:
        ValueError: they are without end.
    """
    if seconds is None:
        return None
    if not isfinite(seconds):
        raise ValueError(f"{option} takes a number, not {seconds}.")
    return round(seconds * 1000)


def session_of(context: typer.Context) -> Session:
    """The session that the top-level options have made."""
    session: Session = context.find_root().obj
    return session
