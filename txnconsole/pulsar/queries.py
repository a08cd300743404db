"""Query strings and bodies of Pulsar's paths, with Pulsar's names."""

from __future__ import annotations

from typing import Annotated

import msgspec

from txnconsole.api.structs.fields import CoordinatorID, Query


class _PulsarQuery(Query, rename="camel"):
    """Pulsar's tools send `authoritative` along; there is one address, so it means nothing."""

    authoritative: bool = False


class OfCoordinator(_PulsarQuery):
    coordinator_id: CoordinatorID | None = None


class WithLowWaterMarks(_PulsarQuery):
    low_water_marks: bool = False
    segment_stats: bool = False


class WithMetadata(_PulsarQuery):
    """Pulsar adds the metadata of ledgers, of which there is none here."""

    metadata: bool = False


class OfBatch(_PulsarQuery):
    batch_index: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None
