"""What a read needs of where the messages are; over HTTP and at the brokers alike."""

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
    """A way to the messages of the topics of one read; pickled to the tasks."""

    @property
    def made_by(self) -> str:
        """Whose clock tells when a log was made: other ways ask others."""

    def positions(self) -> dict[Place, Position]:
        """Where every partition stands now for this read.

        Raises:
            TopicNotFound: no topic of that name.
        """

    def opened_at(self, after: Mapping[Place, int]) -> dict[Place, int]:
        """The lowest offset at which a ledger of a partition begins that was opened after another;
        without partitions that have none."""

    def tasks(self, ranges: Sequence[OffsetRange], bounds: Bounds) -> list[InputPartition]:
        """Share ranges out over tasks."""

    def read(
        self, task: InputPartition, bounds: Bounds, columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """A task's messages, in batches of these columns."""
