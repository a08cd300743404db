"""Coordinators (design/api.md, Coordinators, operations)."""

from __future__ import annotations

from rest_framework.request import Request

from engine.model.errors import CoordinatorNotFound
from txnconsole.access.roles import Permission
from txnconsole.api.endpoint import Endpoint
from txnconsole.api.operation import Call, NoQuery, Shape, operation
from txnconsole.api.structs.coordinators import Coordinator, Coordinators
from txnconsole.enginedb.wiring import engine


class AllCoordinators(Endpoint):
    @operation(
        "listCoordinators",
        Permission.COORDINATOR_READ,
        Shape(answer=Coordinators),
        summary="List the coordinators",
    )
    def get(self, call: Call[None, NoQuery]) -> Coordinators:
        """All of them, with their counters."""
        return Coordinators(items=[Coordinator.of(each) for each in engine().coordinator.stats()])


class OneCoordinator(Endpoint):
    tc_id: int

    def initial(self, request: Request, *args: object, **path: int) -> None:
        super().initial(request, *args, **path)
        self.tc_id = path["coordinator_id"]

    @operation(
        "getCoordinator",
        Permission.COORDINATOR_READ,
        Shape(answer=Coordinator),
        summary="Show a coordinator",
    )
    def get(self, call: Call[None, NoQuery]) -> Coordinator:
        """Its counters, low water mark and recovery."""
        for stats in engine().coordinator.stats():
            if stats.tc_id == self.tc_id:
                return Coordinator.of(stats)
        raise CoordinatorNotFound(f"There is no coordinator {self.tc_id}.")
