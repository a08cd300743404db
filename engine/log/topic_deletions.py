"""What the brokers still have of topics that are in the catalog no more: deleted at once where the
broker answers, and else by a sweep.

The catalog remembers what is left to be deleted (``coordinator.dropped_topic``), so a crash loses
none of it.
"""

from __future__ import annotations

import structlog

from engine.log.brokers import Brokers
from engine.log.time_budget import TimeBudget
from engine.log.topic_partitions import delete_partitions, delete_some_rows
from engine.model.errors import EngineError, PartitionUnavailable, TimeLimitExceeded
from engine.model.topic import Topic
from engine.postgres.database import Database
from engine.postgres.failures import FAILURES

logger = structlog.get_logger(__name__)

#: Interrupted deletions that one sweep continues on each broker.
_DELETIONS = 200
#: After so many deletions that ran out of time, a sweep leaves the broker to the next one.
_SLOW = 2


class TopicDeletions:
    """Deletes topics on their brokers."""

    def __init__(self, catalog: Database, brokers: Brokers) -> None:
        self._catalog = catalog
        self._brokers = brokers

    def begin(self, topic: Topic) -> None:
        """Delete a topic that has just been taken out of the catalog. What fails is left to
        :meth:`finish`."""
        for broker in dict.fromkeys(topic.brokers):
            try:
                self._delete_on(broker, topic.topic_id)
                delete_some_rows(self._brokers.get(broker))
            except (PartitionUnavailable, TimeLimitExceeded) as error:
                _log_waiting(broker, error)
            except FAILURES:
                logger.exception("topic's deletion waits", broker=broker)

    def finish(self, budget: TimeBudget) -> int:
        """Delete what is left of deleted topics on brokers that could not be reached at that time,
        or because of a crash; the workers call this every few seconds. A topic that somebody holds
        a lock on is tried again later.

        Returns:
            How many topics were finished, counted on each broker.
        """
        names = self._brokers.names
        parts = budget.split(len(names))
        return sum(self._finish_on(broker, next(parts)) for broker in names)

    def _finish_on(self, broker: str, budget: TimeBudget) -> int:
        with self._catalog.session() as session:
            rows = session.all("dropped_topics", broker=broker, limit=_DELETIONS)
        finished = slow = 0
        for row, _ in zip(rows, budget.steps(), strict=False):
            try:
                self._delete_on(broker, row.topic_id)
            except TimeLimitExceeded as error:
                _log_waiting(broker, error)
                self._postpone(broker, row.topic_id)
                slow += 1
                if slow == _SLOW:
                    break  # the broker itself is slow; the next sweep begins with the others
            except PartitionUnavailable as error:
                _log_waiting(broker, error)
                break  # one refusal is enough, however much the broker still has
            except FAILURES:
                logger.exception("topic's deletion waits", broker=broker)
                self._postpone(broker, row.topic_id)
            else:
                finished += 1
        return finished

    def _postpone(self, broker: str, topic_id: int) -> None:
        """Let others come first. Raises CoordinatorUnavailable: none can go on now."""
        with self._catalog.session() as session:
            session.run("postpone_dropped_topic", topic_id=topic_id, broker=broker)

    def _delete_on(self, broker: str, topic_id: int) -> None:
        """Delete a topic that is no longer in the catalog on one broker.

        Raises:
            PartitionUnavailable, TimeLimitExceeded: nothing was deleted; it has to be done later.
        """
        delete_partitions(self._brokers.get(broker), topic_id)
        with self._catalog.session() as session:
            session.run("forget_dropped_topic", topic_id=topic_id, broker=broker)


def _log_waiting(broker: str, error: EngineError) -> None:
    logger.warning("topic's deletion waits", broker=broker, reason=error.message)
