"""Coordinators (design/api.md, Coordinators, operations)."""

from __future__ import annotations

from engine.model.page import decode_cursor, foreign_cursor
from engine.model.txn_id import MAX_TC_ID
from txnconsole.access.roles import Permission
from txnconsole.api.endpoint import Endpoint
from txnconsole.api.operation import Call, NoQuery, Shape, operation
from txnconsole.api.paging import page_of
from txnconsole.api.structs.coordinators import (
    Coordinator,
    Coordinators,
    ScaleCoordinators,
    ScaledCoordinators,
)
from txnconsole.api.structs.fields import PageQuery
from txnconsole.enginedb.wiring import engine
from txnconsole.operations.coordinators import scale


class AllCoordinators(Endpoint):
    @operation(
        "listCoordinators",
        Permission.COORDINATOR_READ,
        Shape(query=PageQuery, answer=Coordinators),
        summary="List the coordinators",
    )
    def get(self, call: Call[None, PageQuery]) -> Coordinators:
        """With their counters, in the order of their numbers."""
        cursor, limit = call.query.cursor, call.query.limit
        found = engine().coordinator.stats(after=_position(cursor), limit=limit + 1)
        page, next_cursor = page_of(found, limit, lambda each: each.tc_id)
        return Coordinators(items=[Coordinator.of(each) for each in page], next_cursor=next_cursor)


class NumberOfCoordinators(Endpoint):
    @operation(
        "scaleCoordinators",
        Permission.COORDINATOR_SCALE,
        Shape(keyed=True, body=ScaleCoordinators, answer=ScaledCoordinators),
        summary="Grow the number of coordinators",
    )
    def post(self, call: Call[ScaleCoordinators, NoQuery]) -> ScaledCoordinators:
        """Every process uses the new ones within a second. The number never shrinks: a smaller one
        answers 400 and changes nothing, the same one 200."""
        reason = (call.body.reason or "").strip()
        before = scale(self.actor(), call.body.count, reason)
        return ScaledCoordinators(count=call.body.count, before=before)


class OneCoordinator(Endpoint):
    @operation(
        "getCoordinator",
        Permission.COORDINATOR_READ,
        Shape(answer=Coordinator),
        summary="Show a coordinator",
    )
    def get(self, call: Call[None, NoQuery]) -> Coordinator:
        """Its counters, low water mark and recovery."""
        return Coordinator.of(engine().coordinator.stats_of(self.kwargs["coordinator_id"]))


def _position(cursor: str | None) -> int:
    if cursor is None:
        return -1
    [tc_id] = decode_cursor(cursor, 1)
    if not isinstance(tc_id, int) or not 0 <= tc_id <= MAX_TC_ID:
        raise foreign_cursor()
    return tc_id
