"""Offset ranges as PostgreSQL's ``int8multirange``."""

from __future__ import annotations

import re

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader

from engine.model.ranges import Ranges

_INT8MULTIRANGE = 4536  # pg_type.oid, the same in every PostgreSQL since 14
_RUN = re.compile(rb"\[(-?\d+),(-?\d+)\)")


class _RangesLoader(Loader):
    def load(self, data: Buffer) -> Ranges:
        return Ranges(tuple((int(lower), int(upper)) for lower, upper in _RUN.findall(data)))


class _RangesDumper(Dumper):
    oid = _INT8MULTIRANGE

    def dump(self, obj: Ranges) -> Buffer:
        return ("{" + ",".join(f"[{lower},{upper})" for lower, upper in obj.runs) + "}").encode()


def register(connection: psycopg.Connection[object]) -> None:
    """Let a connection read and write :class:`Ranges`."""
    connection.adapters.register_loader(_INT8MULTIRANGE, _RangesLoader)
    connection.adapters.register_dumper(Ranges, _RangesDumper)
