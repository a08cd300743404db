"""The archive: of transactions that ended long ago, id, owner and outcome are kept for ever
(semantics §2).

An ended transaction stays in its tables, with header, participants and log, until it ended more
than ``archive_after_ms`` ago or is more than ``archive_keep`` sequences behind the newest of its
coordinator. Then two bits are left of it, in a chunk of its coordinator and owner
(docs/decisions/0010-archive-is-bitmaps.md).

A transaction is moved in one SQL transaction, so it is always in exactly one of the two places. A
reader that looks into the tables first and the archive second finds it.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.coordinator import rows
from engine.log.rows import txn_of
from engine.model.errors import CoordinatorNotFound, TransactionNotFound
from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID, id_lists
from engine.postgres.database import Database
from engine.postgres.session import Session
from engine.settings import EngineSettings


class Archive:
    """Moves ended transactions to the archive."""

    def __init__(self, database: Database, settings: EngineSettings) -> None:
        self._database = database
        self._settings = settings

    def move(self, limit: int = 1000) -> int:
        """Archive at most ``limit`` transactions that are due; answers how many. When several
        callers come at once, one moves transactions and the others do nothing."""
        with self._database.session() as session:
            row = session.one(
                "archive_txns",
                after_ms=self._settings.archive_after_ms,
                keep=self._settings.archive_keep,
                limit=limit,
            )
        return int(row.moved) if row else 0

    def forget_groups(self, limit: int = 1000) -> int:
        """Forget at most ``limit`` group ends that were decided ``groups_kept_ms`` ago; answers how
        many. After that a group with the same key counts as new, and is decided anew."""
        with self._database.session() as session:
            return session.run("forget_groups", kept_ms=self._settings.groups_kept_ms, limit=limit)


def find_archived(
    session: Session, txn_ids: Iterable[TxnID], *, owner: str | None = None
) -> dict[TxnID, Transaction]:
    """The archived transactions among some ids, only those of ``owner`` if one is given."""
    found = session.all("archived_txns", **id_lists(txn_ids), owner=owner)
    return {txn_of(row): rows.archived(row) for row in found}


def archived(database: Database, txn_id: TxnID, owner: str | None) -> Transaction:
    """What the archive knows of a transaction that has no header.

    Raises:
        TransactionNotFound: it was never issued, or is not ``owner``'s.
        CoordinatorNotFound: nor is there such a coordinator.
    """
    with database.session() as session:
        found = find_archived(session, [txn_id], owner=owner)
        if txn_id not in found:
            raise not_found(session, txn_id)
    return found[txn_id]


def not_found(session: Session, txn_id: TxnID) -> TransactionNotFound:
    """The error that tells what there is not: the coordinator that an id names, or the transaction
    alone. It is asked for only then."""
    row = session.one("count_coordinators")
    if row is not None and txn_id.tc_id >= row.count:
        return CoordinatorNotFound.of(txn_id.tc_id)
    return TransactionNotFound(f"There is no transaction {txn_id}.")


def find_all(session: Session, txn_ids: Iterable[TxnID]) -> dict[TxnID, Transaction]:
    """Headers without participants, of archived transactions too; unknown ids are left out."""
    wanted = list(txn_ids)
    if not wanted:
        return {}
    headers = session.all("get_txns", **id_lists(wanted))
    found = {txn_of(row): rows.transaction(row) for row in headers}
    missing = [txn_id for txn_id in wanted if txn_id not in found]
    return found | find_archived(session, missing) if missing else found
