"""Growing the number of coordinators, recovering one, and reconciling all, recorded."""

from __future__ import annotations

from dataclasses import asdict

from engine.coordinator.reconciliation import Reconciled
from engine.coordinator.recovery import Recovered
from engine.model.errors import InvalidRequest
from txnconsole.audit.recording import Actor, Change, recorded
from txnconsole.enginedb.wiring import engine
from txnconsole.queue.wakeup import wake_finalizer

#: Of a request's time; what is left then is the workers'.
_RECOVERY_SECONDS = 3.0


def scale(actor: Actor, count: int, reason: str = "", *, must_grow: bool = False) -> int:
    """Let there be ``count`` coordinators; returns how many there were. See
    :meth:`engine.coordinator.coordinator.Coordinator.scale`.

    Raises:
        InvalidRequest: there are more, or no ids for so many; with ``must_grow`` also when there
            are as many.
    """
    change = Change(actor, "coordinator.scale", "coordinators", reason=reason)
    with recorded(change) as recording:
        before = engine().coordinator.scale(count)
        if must_grow and before == count:
            raise InvalidRequest(
                f"There are {before} coordinators already; name a greater number.", field="count"
            )
        recording.before = {"count": before}
        recording.after = {"count": count}
    return before


def recover(actor: Actor, tc_id: int, reason: str) -> Recovered:
    """Drive on, for a few seconds at most, what is due at a coordinator and what waits there; see
    :meth:`engine.coordinator.recovery.CoordinatorRecovery.recover`.

    Raises:
        CoordinatorNotFound: there is none.
        CoordinatorUnavailable: the coordinators' database cannot be reached.
    """
    change = Change(actor, "coordinator.recover", f"coordinator:{tc_id}", reason=reason)
    with recorded(change) as recording:
        before = engine().coordinator.stats_of(tc_id)
        recording.before = {"open": before.ongoing_txns, "finishing": before.finalizing_txns}
        done = engine().recovery.recover(tc_id, seconds=_RECOVERY_SECONDS)
        recording.after = {"expired": done.expired, "ended": done.ended, "waiting": done.waiting}
    wake_finalizer(tc_id)
    return done


def reconcile(actor: Actor) -> Reconciled:
    """Take over from the brokers what the coordinators have lost; see
    :meth:`engine.coordinator.reconciliation.Reconciliation.reconcile`.

    Raises:
        PartitionUnavailable, TimeLimitExceeded: a broker cannot be asked; what has been taken over
            by then stays.
    """
    # The audit log stands in the database that is refused until this is done.
    change = Change(actor, "coordinator.reconcile", "coordinators")
    with engine().database.as_it_is(), recorded(change) as recording:
        done = engine().reconciliation.reconcile()
        recording.after = {name: len(txn_ids) for name, txn_ids in asdict(done).items()}
    return done
