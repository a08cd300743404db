"""The settings of the engine that a deployment may choose."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Limits and intervals; durations in milliseconds, sizes in bytes.

    The names of the snapshot settings are semantics §5's.
    """

    #: The least number of coordinators; ``Coordinator.scale`` makes more.
    coordinators: int = 4
    default_timeout_ms: int = 60_000
    max_timeout_ms: int = 3_600_000
    #: How many transactions one owner may have open; 0 for no limit.
    max_open_per_owner: int = 10_000
    #: An ended transaction keeps its header, participants and log for so long, and while it is
    #: among so many last sequences of its coordinator. Then only its outcome is kept
    #: (engine/coordinator/archive.py).
    archive_after_ms: int = 7 * 24 * 3_600_000
    archive_keep: int = 1_000_000
    #: A group end can be repeated for so long. It has to be longer than any sink is down before it
    #: goes on from its old checkpoint.
    groups_kept_ms: int = 90 * 24 * 3_600_000
    #: A producer outside transactions is remembered for so long after retention has dropped the
    #: last of its batches. What it sends again after that is appended again.
    producers_kept_ms: int = 30 * 24 * 3_600_000
    max_message_bytes: int = 5 * 1024 * 1024
    max_batch_bytes: int = 16 * 1024 * 1024
    max_batch_messages: int = 65_536
    max_fetch_messages: int = 10_000
    max_fetch_bytes: int = 16 * 1024 * 1024
    snapshot_max_transactions: int = 1000
    snapshot_min_interval_ms: int = 5000
    #: After so many offsets a snapshot is due even if no transaction changed, so that recovery
    #: stays short.
    snapshot_max_distance: int = 100_000
    #: Where the files of offloaded segments are; every process must be able to read them there.
    offload_directory: str | None = None
    pool_size: int = 16
    #: The limit of a single statement, including waiting for locks (at most ten seconds for a
    #: lock). It is a safety net; no statement of the engine should take long.
    statement_timeout_ms: int = 60_000
    #: Accept databases that may lose in a crash what they have acknowledged; only for tests.
    unsafe_databases: bool = False
