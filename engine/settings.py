"""What a deployment may choose about the engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Limits and intervals; durations in milliseconds, sizes in bytes.

    The names of the snapshot settings are semantics §5's.
    """

    #: How many coordinators there are at least; ``Engine.scale_coordinators`` makes more.
    coordinators: int = 4
    default_timeout_ms: int = 60_000
    max_timeout_ms: int = 3_600_000
    #: Open transactions of one owner; 0 is without a limit.
    max_open_per_owner: int = 10_000
    #: Ended transactions keep header, participants and log for so long, and so many sequences of
    #: each coordinator; after that their outcome (engine/coordinator/archive.py).
    archive_after_ms: int = 7 * 24 * 3_600_000
    archive_keep: int = 1_000_000
    #: A group's decision answers its repetition for so long: longer than any sink may be down and
    #: then go on from its old checkpoint.
    groups_kept_ms: int = 90 * 24 * 3_600_000
    #: A producer outside transactions is known for so long after the last of its batches that
    #: retention has dropped: what it sends again later than that is appended again.
    producers_kept_ms: int = 30 * 24 * 3_600_000
    max_message_bytes: int = 5 * 1024 * 1024
    max_batch_bytes: int = 16 * 1024 * 1024
    max_batch_messages: int = 65_536
    max_fetch_messages: int = 10_000
    max_fetch_bytes: int = 16 * 1024 * 1024
    snapshot_max_transactions: int = 1000
    snapshot_min_interval_ms: int = 5000
    #: Offsets after which a snapshot is due even if no transaction changed: recovery stays short.
    snapshot_max_distance: int = 100_000
    #: Where the files stand to which segments are offloaded; every process must see them there.
    offload_directory: str | None = None
    pool_size: int = 16
    #: A single statement, waiting for locks included (no lock is waited for longer than ten
    #: seconds). It is a safety net: no statement of the engine takes long.
    statement_timeout_ms: int = 60_000
    #: Databases that may lose in a crash what they have acknowledged; for tests alone.
    unsafe_databases: bool = False
