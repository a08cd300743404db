"""Which consumers are present. Calls hold no connection, so presence is a lease
(docs/decisions/0009).

A consumer counts as present for ``consumer_lease_ms`` after its last call. On an EXCLUSIVE or
FAILOVER subscription one consumer is the active one while its lease lasts. The lease is stored in
the subscription's record at its home broker, durably and by that database's clock. It is renewed
when a third of it is over; in between a process relies on what it remembers. The lease's epoch is a
fencing token: a partition that has seen a later epoch refuses an earlier one, and gives back what
the earlier consumer had. On KEY_SHARED each partition remembers which consumers are present.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from engine.model.errors import ConsumerBusy
from engine.model.subscription import SubscriptionType
from engine.subscription.cursors import Cursors, Share
from engine.subscription.records import Records
from engine.subscription.state import State

#: A consumer shows itself so many times within its lease, so that it does not run out.
RENEWALS = 3
_KEPT_LEASES = 10_000


class Fenced(ConsumerBusy):
    """The lease that this process remembered is over. It has been forgotten, so the next call asks
    the database who the active consumer is."""


class LeaseHolder(NamedTuple):
    """A consumer that is let in, and the epoch in which it is the active one; 0 on types that do
    not have an active consumer."""

    consumer: str
    epoch: int


@dataclass(frozen=True, slots=True)
class _Lease:
    """A lease that this process remembers. ``since``: when it was asked for, by the process's
    monotonic clock; a moment before the database granted it, so never too late. ``records``: the
    subscription's records, by broker and id, for which it was asked. It does not hold for one that
    was found later, which may be another subscription's of the same name."""

    holder: LeaseHolder
    since: float
    records: frozenset[tuple[str, int]]


class Leases:
    """Decides which consumer may consume."""

    def __init__(self, records: Records, cursors: Cursors) -> None:
        self._records = records
        self._cursors = cursors
        self._remembered: dict[tuple[str, int], _Lease] = {}

    def hold(self, share: Share, consumer: str) -> LeaseHolder | None:
        """Make a consumer the active one, if the type has an active consumer and it is nobody else;
        answers it with its epoch, None when another consumer is the active one.

        Raises:
            SubscriptionNotFound: there is none.
            PartitionUnavailable: its home broker cannot be reached.
        """
        if not share.has_one_consumer:
            return LeaseHolder(consumer, 0)
        home = self._records.home(share.topic)
        record = (share.database.name, share.subscription_id)
        if home is not share.database:
            share = self._cursors.share(home, share.topic, share.name)
        key = (home.name, share.subscription_id)
        now = time.monotonic()
        known = self._remembered.get(key)
        renewed = share.record.consumer_lease_ms / 1000 / RENEWALS
        if (
            known is not None
            and known.holder.consumer == consumer
            and now < known.since + renewed
            and record in known.records
        ):
            return known.holder
        holder = self._ask(share, consumer)
        if holder is None:
            share = self._cursors.refreshed(share)
            key = (home.name, share.subscription_id)
            holder = self._ask(share, consumer)
        if len(self._remembered) >= _KEPT_LEASES:
            self._remembered.clear()
        if holder is None:
            self._remembered.pop(key, None)
        else:
            before = known.records if known is not None and known.holder == holder else frozenset()
            self._remembered[key] = _Lease(holder, now, before | {key, record})
        return holder

    def require(self, share: Share, consumer: str) -> LeaseHolder:
        """As :meth:`hold`, but another active consumer is an error.

        Raises:
            ConsumerBusy: another consumer is the active one.
        """
        holder = self.hold(share, consumer)
        if holder is None:
            raise ConsumerBusy(_busy(share))
        return holder

    def enter(self, share: Share, state: State, holder: LeaseHolder) -> State:
        """Let a consumer enter a partition: what an earlier active consumer still had is given
        back, and on KEY_SHARED the consumer is noted as present. Answers the state after that.

        Raises:
            Fenced: a later active consumer has entered before, or this one has left.
        """
        dispatch = state.dispatch
        if holder.epoch < dispatch.epoch:
            self.forget(share)
            raise Fenced(_busy(share))
        if holder.epoch > dispatch.epoch:
            fenced = msgspec.structs.replace(dispatch, epoch=holder.epoch)
            return state.changed(dispatch=fenced).give_back(fenced.in_flight())
        if share.record.type == SubscriptionType.KEY_SHARED:
            return self._present(share, state, holder.consumer)
        return state

    def leave(self, share: Share, consumer: str) -> int:
        """End a consumer's lease. ``share`` is the subscription at its home broker. Answers the
        epoch that begins then, 0 if the consumer had no lease."""
        if not share.has_one_consumer:
            return 0
        self.forget(share)
        with share.database.session() as session:
            row = session.one("end_lease", subscription_id=share.subscription_id, consumer=consumer)
        return 0 if row is None else int(row.next_epoch)

    def forget(self, share: Share) -> None:
        """Forget the lease that this process remembers, so that the next call asks the database."""
        home = self._records.home(share.topic)
        if home is not share.database:
            share = self._cursors.share(home, share.topic, share.name)
        self._remembered.pop((home.name, share.subscription_id), None)

    def _ask(self, share: Share, consumer: str) -> LeaseHolder | None:
        with share.database.session() as session:
            row = session.one(
                "hold_lease", subscription_id=share.subscription_id, consumer=consumer
            )
        return None if row is None else LeaseHolder(consumer, row.consumer_epoch)

    def _present(self, share: Share, state: State, consumer: str) -> State:
        """Note a consumer as present, at most :data:`RENEWALS` times in a lease, so that not every
        call has something to store."""
        lease = share.record.consumer_lease_ms
        until = state.now_ms + lease
        there = state.dispatch.there(state.now_ms, lease)
        if there.get(consumer, 0) > until - lease // RENEWALS:
            return state
        present = there | {consumer: until}
        return state.changed(dispatch=msgspec.structs.replace(state.dispatch, present=present))


def _busy(share: Share) -> str:
    return (
        f"Another consumer is the active one of the {share.record.type} subscription"
        f" {share.name}; it stays so until it leaves or its lease runs out."
    )
