"""A good request of each of Pulsar's operations, and who may make it."""

from __future__ import annotations

from tests.api.conftest import TOPIC, Caller
from tests.pulsar.conftest import bits
from txnconsole.access.roles import Role

V, OP, A = Role.VIEWER, Role.OPERATOR, Role.ADMIN
PEOPLE = {V, OP, A}
P0 = f"{TOPIC}-partition-0"

#: Bodies of the calls that take one.
BODIES = {"pulsarScaleTransactionCoordinators": b"9"}

#: Operation, method, path, and who may; ``{own}`` is a transaction of somebody else.
TABLE: dict[str, tuple[str, str, set[Role]]] = {
    "pulsarCoordinators": ("GET", "coordinators", PEOPLE),
    "pulsarCoordinatorStats": ("GET", "coordinatorStats", PEOPLE),
    "pulsarCoordinatorInternalStats": ("GET", "coordinatorInternalStats/0", PEOPLE),
    "pulsarScaleTransactionCoordinators": ("POST", "transactionCoordinator/replicas", {A}),
    "pulsarTransactionMetadata": ("GET", "transactionMetadata/{own}", PEOPLE),
    "pulsarSlowTransactions": ("GET", "slowTransactions/0", PEOPLE),
    "pulsarAbortTransaction": ("POST", "abortTransaction/{own}", {OP, A}),
    "pulsarTransactionInBufferStats": ("GET", f"transactionInBufferStats/{P0}/{{own}}", PEOPLE),
    "pulsarTransactionBufferStats": ("GET", f"transactionBufferStats/{P0}", PEOPLE),
    "pulsarTransactionBufferInternalStats": (
        "GET",
        f"transactionBufferInternalStats/{P0}",
        PEOPLE,
    ),
    "pulsarPendingAckInternalStats": ("GET", f"pendingAckInternalStats/{P0}/s", PEOPLE),
    "pulsarPendingAckStats": ("GET", f"pendingAckStats/{P0}/s", PEOPLE),
    "pulsarTransactionInPendingAckStats": (
        "GET",
        f"transactionInPendingAckStats/{P0}/s/{{own}}",
        PEOPLE,
    ),
    "pulsarPositionStatsInPendingAck": ("GET", f"positionStatsInPendingAck/{P0}/s/1/0", PEOPLE),
}


def status(caller: Caller, name: str, own: str) -> int:
    method, path, _ = TABLE[name]
    base = "/admin/v3/transactions/"
    body = BODIES.get(name, b"")
    return caller.send(method, path.replace("{own}", bits(own)), body, base=base).status
