"""Seek: moving a subscription to another position in its topic (semantics §6)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from engine.log.brokers import Brokers
from engine.log.catalog import Catalog
from engine.log.holders import require_no_holders
from engine.log.retry import retry_once_on
from engine.model.cursor import Cursor
from engine.model.dispatch import Dispatch
from engine.model.errors import (
    InvalidRequest,
    MessageNotFound,
    PartitionNotFound,
    PartitionUnavailable,
)
from engine.model.subscription import InitialPosition
from engine.model.topic import Topic
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.txn_id import TxnID
from engine.postgres.session import Row, Session
from engine.subscription.cursors import Cursors, Share, SubscriptionReplaced
from engine.subscription.state import Change, State

#: The position to move to: an offset, the first message published at or after a moment, or an end
#: of the log.
Target = int | datetime | InitialPosition


class Seeking:
    """Moves subscriptions."""

    def __init__(self, topics: Catalog, brokers: Brokers, cursors: Cursors) -> None:
        self._topics = topics
        self._brokers = brokers
        self._cursors = cursors

    @retry_once_on(SubscriptionReplaced)
    def seek(self, name: SubscriptionName, target: Target, *, partition: int | None = None) -> None:
        """Move a subscription to ``target``, in one partition or in all of its topic.

        After that everything before the target is acknowledged and everything from it on is not.
        Deliveries and redelivery counts are forgotten. Dead letters on their way go on.

        Raises:
            InvalidRequest: an offset without a partition in a topic that has several.
            TopicNotFound, SubscriptionNotFound, PartitionNotFound: there is none.
            MessageNotFound: an offset that is not in the log.
            TopicInUse: transactions hold acknowledgements; ``holders`` names them. Nothing was
                moved.
            PartitionUnavailable: a partition is offline, or its broker away. Nothing was moved.
            Where acknowledgements come, or a broker goes, while the call moves one broker after the
            other, some have been moved; repeating the call goes on.
        """
        topic = self._topics.get(name.topic, fresh=True)
        if partition is None and isinstance(target, int):
            if len(topic.brokers) > 1:
                raise InvalidRequest(
                    f"{name.topic} has {len(topic.brokers)} partitions: say which one's offset"
                    " this is.",
                    field="partition",
                )
            partition = 0
        if partition is not None and not 0 <= partition < len(topic.brokers):
            raise PartitionNotFound(f"{name.topic} has no partition {partition}.")
        shares = self._shares(topic, name, partition)
        if len(shares) > 1:  # One broker's refusal must not come after another has moved.
            holders = [one for each in shares for one in self._holders_on(*each, target)]
            require_no_holders(name, holders)
        for share, ids in shares:
            self._seek_on(share, ids, target)

    def _shares(
        self, topic: Topic, name: SubscriptionName, partition: int | None
    ) -> list[tuple[Share, list[int]]]:
        """The subscription on each of its brokers, with the ids of the partitions to move there.
        Others are not asked, but for the home, which knows whether the subscription exists."""
        home = topic.brokers[0]
        asked = topic.brokers if partition is None else (home, topic.brokers[partition])
        found = []
        for database in map(self._brokers.get, dict.fromkeys(asked)):
            share = self._cursors.refreshed(self._cursors.share(database, topic, name))
            with database.session() as session:
                rows = session.all("cursors", subscription_id=share.subscription_id)
            ids = [row.partition_id for row in rows if partition in (None, row.number)]
            if ids:
                found.append((share, ids))
        return found

    def _holders_on(
        self, share: Share, partition_ids: Sequence[int], target: Target
    ) -> tuple[TxnID, ...]:
        """Who holds acknowledgements on one broker, whose partitions all serve; changes nothing."""

        def look(
            session: Session, states: Sequence[State]
        ) -> tuple[list[Change], tuple[TxnID, ...]]:
            for state in states:
                _offset(session, share, state, target)
            return [], tuple(ack.txn_id for each in states for ack in each.pending)

        return self._cursors.change(share, partition_ids, look)

    def _seek_on(self, share: Share, partition_ids: Sequence[int], target: Target) -> None:
        def hold(session: Session) -> None:
            # Retention must not drop the target because of a position that the subscription leaves.
            for partition_id in sorted(partition_ids):
                session.one("share_partition", partition_id=partition_id)

        def decide(session: Session, states: Sequence[State]) -> tuple[list[Change], None]:
            # The target is checked first: the caller must not end transactions for a target that
            # does not exist.
            offsets = [_offset(session, share, state, target) for state in states]
            require_no_holders(share.name, (ack.txn_id for each in states for ack in each.pending))
            changes = []
            for state, before in zip(states, offsets, strict=True):
                dispatch = msgspec.structs.replace(
                    Dispatch(before), epoch=state.dispatch.epoch, present=state.dispatch.present
                )
                after = state.changed(cursor=Cursor(mark_delete=before - 1), dispatch=dispatch)
                changes.append(Change(before=state, after=after))
                # Nobody holds anything now, so the steps in the log have no meaning any more.
                session.run(
                    "clear_pending_ack_log",
                    subscription_id=share.subscription_id,
                    partition_id=state.partition_id,
                )
            return changes, None

        self._cursors.change(share, partition_ids, decide, first=hold)


def _offset(session: Session, share: Share, state: State, target: Target) -> int:
    """The first offset that is not acknowledged afterwards."""
    at = target - timedelta(microseconds=1) if isinstance(target, datetime) else None
    row: Row | None = session.one("seek_bounds", partition_id=state.partition_id, at=at)
    partition = PartitionName(share.topic.name, state.number)
    if row is None:
        raise PartitionUnavailable(f"{partition} cannot serve this now; try again.")
    if isinstance(target, InitialPosition):
        earliest = target is InitialPosition.EARLIEST
        return int(row.log_start_offset if earliest else row.next_offset)
    if isinstance(target, datetime):
        return max(int(row.log_start_offset), int(row.last_before) + 1)
    if not row.log_start_offset <= target <= row.next_offset:
        raise MessageNotFound(
            f"{partition} can be read from offsets {row.log_start_offset} to {row.next_offset}, its"
            f" end, not {target}."
        )
    return target
