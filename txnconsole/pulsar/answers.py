"""What Pulsar's clients read (pulsar-client-admin-api, policies/data)."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType


class PulsarAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """The body of an answer, with Java's names."""


class TransactionCoordinatorInfo(PulsarAnswer):
    id: int
    broker_service_url: str


class TransactionCoordinatorStats(PulsarAnswer):
    state: str
    least_sig_bits: int
    low_water_mark: int
    ongoing_txn_size: int
    recover_start_time: int
    recover_end_time: int


class TransactionInBufferStats(PulsarAnswer):
    """``start_position`` only while the transaction is ongoing there."""

    start_position: str | None = None
    aborted: bool = False


class TransactionInPendingAckStats(PulsarAnswer):
    cumulative_ack_position: str | None = None


class TransactionMetadata(PulsarAnswer):
    """``timeout_at`` is a duration in ms, as in Pulsar; ``open_timestamp`` is a moment.
    ``acked_partitions`` names partitions while acknowledgements are held there, and the topic alone
    before and afterwards. ``unavailable``, which Pulsar does not know, names the brokers that could
    not be asked: what stands there is null."""

    txn_id: str
    status: str
    open_timestamp: int
    timeout_at: int
    produced_partitions: dict[str, TransactionInBufferStats]
    acked_partitions: dict[str, dict[str, TransactionInPendingAckStats]]
    owner: str
    unavailable: list[str] | UnsetType = UNSET


class SegmentStats(PulsarAnswer):
    last_txn_id: str = msgspec.field(name="lastTxnID")
    persistent_position: str


class SegmentsStats(PulsarAnswer):
    """Pulsar's segments of aborted ids are this product's rows of the aborted index."""

    segments_size: int
    current_segment_capacity: int
    unsealed_abort_txn_id_size: int = msgspec.field(name="unsealedAbortTxnIDSize")
    segment_stats: list[SegmentStats]
    last_took_snapshot_segment_timestamp: int


class TransactionBufferStats(PulsarAnswer):
    state: str
    max_read_position: str
    last_snapshot_timestamps: int
    low_water_marks: dict[str, int] | None
    ongoing_txn_size: int
    recover_start_time: int
    recover_end_time: int
    total_aborted_transactions: int
    snapshot_type: str
    segments_stats: SegmentsStats | None


class TransactionPendingAckStats(PulsarAnswer):
    state: str
    low_water_marks: dict[str, int] | None
    ongoing_txn_size: int
    recover_start_time: int
    recover_end_time: int


class PositionInPendingAckStats(PulsarAnswer):
    """``PendingAck``, ``MarkDelete``, ``NotInPendingAck`` or ``InvalidPosition``."""

    state: str


class LedgerStats(PulsarAnswer):
    ledger_id: int
    entries: int
    size: int
    offloaded: bool


class ManagedLedgerStats(PulsarAnswer):
    """Counts are left out where no log of Pulsar's kind is behind it."""

    state: str
    last_confirmed_entry: str
    number_of_entries: int | UnsetType = UNSET
    total_size: int | UnsetType = UNSET
    current_ledger_entries: int | UnsetType = UNSET
    current_ledger_size: int | UnsetType = UNSET
    ledgers: list[LedgerStats] | UnsetType = UNSET


class ManagedLedger(PulsarAnswer):
    """A log and how it stands."""

    managed_ledger_name: str
    managed_ledger_internal_stats: ManagedLedgerStats


class TransactionCoordinatorInternalStats(PulsarAnswer):
    transaction_log_stats: ManagedLedger


class TransactionPendingAckInternalStats(PulsarAnswer):
    pending_ack_log_stats: ManagedLedger


class TransactionBufferInternalStats(PulsarAnswer):
    """Snapshots are single ones here; segments of them are Pulsar's alone."""

    snapshot_type: str
    single_snapshot_system_topic_internal_stats: ManagedLedger
    segment_internal_stats: None = None
    segment_index_internal_stats: None = None
