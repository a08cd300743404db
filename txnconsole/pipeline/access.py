"""How a read gets at messages: the protocol that reading over HTTP and at the brokers share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from txnconsole.client.reader import Isolation, Order
from txnconsole.pipeline.filters import Bounds
from txnconsole.pipeline.offsets import OffsetRange, Place, Position

READ_COMMITTED: Isolation = "read_committed"
READ_UNCOMMITTED: Isolation = "read_uncommitted"
PUBLISHED: Order = "published"
COMMITTED: Order = "committed"


class Access(Protocol):
    """A way to read the topics of one read; pickled and sent to the tasks."""

    @property
    def made_by(self) -> str:
        """Whose clock ``Position.made_at`` is by; times of different clocks are not compared."""

    @property
    def brokers(self) -> int:
        """How many brokers it reads from; 0: it asks the server, which knows all of them."""

    def positions(self) -> dict[Place, Position]:
        """Where every partition begins and ends now, for this read.

        Raises:
            TopicNotFound: no topic of that name.
        """

    def opened_at(self, after: Mapping[Place, int]) -> dict[Place, int]:
        """For each partition, the lowest offset at which a ledger newer than the given one begins;
        partitions without a newer ledger are left out."""

    def tasks(self, ranges: Sequence[OffsetRange], bounds: Bounds) -> list[InputPartition]:
        """Split ranges into tasks."""

    def read(
        self, task: InputPartition, bounds: Bounds, columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """A task's messages, in batches of these columns."""
