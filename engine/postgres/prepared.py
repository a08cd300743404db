"""Statements for the hottest paths: prepared once per connection, binary both ways, one call of
libpq each. They cost a third of what a cursor costs a caller (docs/decisions/0012)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, LiteralString, TypeVar

import msgspec
from psycopg import errors as pg
from psycopg import generators
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from engine.model.ranges import Ranges
from engine.postgres.connection import Connection

_T = TypeVar("_T")

_BINARY = 1
_UNKNOWN_STATEMENT = b"26000"
_SQLSTATE = 67  # libpq's PG_DIAG_SQLSTATE
_DONE = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)

_int8 = struct.Struct(">q")
_int4 = struct.Struct(">i")
_float8 = struct.Struct(">d")
_array = struct.Struct(">iiiii")
_run = struct.Struct(">iBiqiq")
_NULL = _int4.pack(-1)
#: How a range of a multirange begins: its length in bytes, and the flag "lower bound inclusive".
_RUN = (25, 2)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Type(Generic[_T]):
    """A PostgreSQL type in its binary form.

    Attributes:
        oid, array_oid: of the type and of its arrays in pg_type, the same on every server.
        dump, load: a value to its binary form, and back.
        item: of a type with a fixed length, the layout of one element in an array: its length, then
            its value. None: elements are read one by one.
        of_item: makes a value of what ``item`` unpacks; None when that is the value already.
    """

    oid: int
    array_oid: int
    dump: Callable[[_T], bytes]
    load: Callable[[bytes], _T]
    item: struct.Struct | None = None
    of_item: Callable[[Any], _T] | None = None


INT8: Type[int] = Type(
    20, 1016, _int8.pack, lambda data: _int8.unpack(data)[0], struct.Struct(">iq")
)
INT4: Type[int] = Type(
    23, 1007, _int4.pack, lambda data: _int4.unpack(data)[0], struct.Struct(">ii")
)
FLOAT8: Type[float] = Type(
    701, 1022, _float8.pack, lambda data: _float8.unpack(data)[0], struct.Struct(">id")
)
TEXT: Type[str] = Type(25, 1009, str.encode, bytes.decode)
#: PostgreSQL's ``"char"``: one byte.
CHAR: Type[str] = Type(18, 1002, str.encode, bytes.decode, struct.Struct(">ic"), bytes.decode)
BYTEA: Type[bytes] = Type(17, 1001, bytes, bytes)
BOOL: Type[bool] = Type(16, 1000, lambda value: b"\x01" if value else b"\x00", b"\x01".__eq__)


def _moment(microseconds: int) -> datetime:
    # By position (days, seconds, microseconds): by keyword it takes twice as long.
    return _EPOCH + timedelta(0, 0, microseconds)


TIMESTAMPTZ: Type[datetime] = Type(
    1184,
    1185,
    lambda at: _int8.pack((at - _EPOCH) // timedelta(microseconds=1)),
    lambda data: _moment(_int8.unpack(data)[0]),
    struct.Struct(">iq"),
    _moment,
)


#: Its binary form is a version number, which is 1, and then the text.
JSONB: Type[Any] = Type(
    3802,
    3807,
    lambda value: b"\x01" + msgspec.json.encode(value),
    lambda data: msgspec.json.decode(data[1:]),
)
JSON: Type[Any] = Type(114, 199, msgspec.json.encode, msgspec.json.decode)


def _dump_ranges(ranges: Ranges) -> bytes:
    runs = [_run.pack(*_RUN, 8, lower, 8, upper) for lower, upper in ranges.runs]
    return _int4.pack(len(runs)) + b"".join(runs)


def _load_ranges(data: bytes) -> Ranges:
    """PostgreSQL stores ranges of bigint in one form only: lower bound inclusive, upper
    exclusive."""
    return Ranges(tuple((run[3], run[5]) for run in _run.iter_unpack(data[4:])))


INT8MULTIRANGE: Type[Ranges] = Type(4536, 6157, _dump_ranges, _load_ranges)


def array_of(type_: Type[_T]) -> Type[Sequence[_T | None]]:
    """The type of one-dimensional arrays, NULLs allowed."""
    dump, load, item, of_item = type_.dump, type_.load, type_.item, type_.of_item

    def dump_array(values: Sequence[_T | None]) -> bytes:
        parts = [_array.pack(1, 1 if None in values else 0, type_.oid, len(values), 1)]
        for value in values:
            if value is None:
                parts.append(_NULL)
            else:
                data = dump(value)
                parts.append(_int4.pack(len(data)))
                parts.append(data)
        return b"".join(parts)

    def load_array(data: bytes) -> Sequence[_T | None]:
        if len(data) <= _array.size:
            return []
        _, has_nulls, _, count, _ = _array.unpack_from(data)
        if item is not None and not has_nulls:
            found = [value for _, value in item.iter_unpack(data[_array.size :])]
            return found if of_item is None else list(map(of_item, found))
        if has_nulls and data[_array.size :] == _NULL * count:
            return [None] * count
        values: list[_T | None] = []
        at = _array.size
        end, append, length = len(data), values.append, _int4.unpack_from
        while at < end:
            [size] = length(data, at)
            at += 4
            if size < 0:
                append(None)
            else:
                append(load(data[at : at + size]))
                at += size
        return values

    return Type(type_.array_oid, 0, dump_array, load_array)


def forget(connection: Connection) -> None:
    """Prepare everything anew on this connection. After a rollback psycopg drops the statements
    that it has prepared itself, and ours with them."""
    connection.prepared.clear()


class Prepared:
    """A statement with typed parameters and columns.

    Args:
        name: what it is called on a connection; unique in the engine.
        text: the statement, its parameters as ``%(name)s``.
        parameters: name and type of each.
        columns: the type of each column of the answer.
    """

    def __init__(
        self,
        name: str,
        text: LiteralString,
        parameters: dict[str, Type[Any]],
        columns: Sequence[Type[Any]],
    ) -> None:
        for number, parameter in enumerate(parameters, start=1):
            text = text.replace(f"%({parameter})s", f"${number}")
        self.name = name
        self._text = text.encode()
        self._name = f"engine_{name}".encode()
        self._oids = [type_.oid for type_ in parameters.values()]
        self._dumpers = [type_.dump for type_ in parameters.values()]
        self._binary = [_BINARY] * len(parameters)
        self._columns = [(column, type_.load) for column, type_ in enumerate(columns)]

    def ask(
        self,
        connection: Connection,
        *values: Any,
        meanwhile: Callable[[], object] | None = None,
    ) -> list[tuple[Any, ...]]:
        """Run it: as a transaction of its own, or as a part of the one that the connection is in.

        Args:
            meanwhile: called once while the server works; what it raises is raised after the server
                has answered.

        Raises:
            psycopg.errors.InvalidSqlStatementName: the prepared statement had been dropped, and the
                error has aborted the surrounding transaction; the transaction may be tried again.
            psycopg.Error: as a cursor raises it.
        """
        try:
            # NULLs are None: psycopg's own type does not say so.
            parameters: list[Any] = [
                None if value is None else dump(value)
                for dump, value in zip(self._dumpers, values, strict=True)
            ]
        except (struct.error, UnicodeError) as error:
            raise pg.DataError(f"out of its type's range: {error}") from error
        if meanwhile is None:
            answer = self._execute(connection, parameters)
        else:
            answer = self._execute_beside(connection, parameters, meanwhile)
        if answer.status not in _DONE:
            if answer.error_field(_SQLSTATE) == _UNKNOWN_STATEMENT:
                forget(connection)
                if connection.pgconn.transaction_status == TransactionStatus.IDLE:
                    answer = self._execute(connection, parameters)
            _checked(connection, answer)
        return self._rows(answer)

    def _prepare(self, connection: Connection) -> None:
        # The server may still have a statement of this name. Preparing it a second time would abort
        # the transaction; closing one that does not exist is harmless. PGconn.close_prepared() is
        # not used because it alone of libpq's calls here keeps Python's lock while it waits, and so
        # stops every thread.
        connection.pgconn.send_close_prepared(self._name)
        [closed] = connection.wait(generators.execute(connection.pgconn))
        _checked(connection, closed)
        _checked(connection, connection.pgconn.prepare(self._name, self._text, self._oids))
        connection.prepared.add(self)

    def _rows(self, answer: PGresult) -> list[tuple[Any, ...]]:
        get, columns = answer.get_value, self._columns
        return [
            tuple(
                [
                    None if (data := get(row, column)) is None else load(data)
                    for column, load in columns
                ]
            )
            for row in range(answer.ntuples)
        ]

    def _execute(self, connection: Connection, parameters: list[bytes]) -> PGresult:
        if self not in connection.prepared:
            self._prepare(connection)
        return connection.pgconn.exec_prepared(self._name, parameters, self._binary, _BINARY)

    def _execute_beside(
        self,
        connection: Connection,
        parameters: list[bytes],
        meanwhile: Callable[[], object],
    ) -> PGresult:
        if self not in connection.prepared:
            self._prepare(connection)
        connection.pgconn.send_query_prepared(self._name, parameters, self._binary, _BINARY)
        try:
            meanwhile()
        finally:
            answers: list[PGresult] = connection.wait(generators.execute(connection.pgconn))
        return answers[0]


def _checked(connection: Connection, answer: PGresult) -> None:
    if answer.status in _DONE:
        return
    if connection.pgconn.status == ConnStatus.BAD:
        raise pg.OperationalError(answer.get_error_message())
    raise error_from_result(answer)
