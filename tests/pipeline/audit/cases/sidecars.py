"""Cases of sidecar-buffered partitions."""

from __future__ import annotations

from tests.pipeline.audit.cases.case import COMPACTED, SIDECAR, Case, Found


def of_a_marker_missing_in_a_sidecar(case: Case) -> Found:
    case.sidecar(home=1, side=2, first_ongoing_offset=0)
    case.plain(0)
    txn = case.ongoing(0, 1, status="ABORTED", log=SIDECAR)
    return {("missing_marker", SIDECAR, txn)}


def of_a_sidecars_head(case: Case) -> Found:
    """Where it is stable; what its partition has in its own head is right."""
    case.sidecar(home=1, side=4, first_ongoing_offset=2)
    case.plain(0)
    case.ongoing(0, 1, log=SIDECAR)
    case.ongoing(2, 3, log=SIDECAR)
    return {("stable_position", SIDECAR, None)}


def of_a_sidecars_end(case: Case) -> Found:
    """The next message would be written over the last."""
    case.sidecar(home=1, side=1, first_ongoing_offset=0)
    case.plain(0)
    case.ongoing(0, 1, log=SIDECAR)
    return {("log_end", SIDECAR, None)}


def of_a_whole_sidecar(case: Case) -> Found:
    side = case.sidecar(home=5, side=9)
    case.plain(0)
    case.committed_in_sidecar(0, 1, 2, commit=1)
    case.committed_in_sidecar(3, 4, 5, commit=3)
    case.ongoing(6, 8, log=SIDECAR)
    side["first_ongoing_offset"] = 6
    return set()


def of_all_of_a_commit_lost(case: Case) -> Found:
    case.sidecar(home=2, side=3)
    txn = case.committed_in_sidecar(0, 1, 2, commit=0)
    entries = case.tables["entries"]
    entries.remove(next(row for row in entries if row["kind"] == "D"))
    return {("commit_incomplete", "", txn)}


def of_a_commit_that_tells_too_few_offsets(case: Case) -> Found:
    case.sidecar(home=1, side=3)
    txn = case.committed_in_sidecar(0, 1, 2, commit=0)
    case.tables["entries"][-1]["last_offset"] = 0
    return {(rule, "", txn) for rule in ("commit_misplaced", "participant", "fence")}


def of_what_a_sidecars_participant_was_told(case: Case) -> Found:
    case.sidecar(home=2, side=3)
    txn = case.committed_in_sidecar(0, 1, 2, commit=0)
    case.tables["participants"][-1]["last_offset"] = 2
    return {("participant", "", txn)}


def of_a_sidecars_index(case: Case) -> Found:
    """A row is missing; one has the log stable elsewhere, and leads nobody astray."""
    case.sidecar(home=2, side=4)
    lost = case.committed_in_sidecar(0, 0, 1, commit=0)
    wrong = case.committed_in_sidecar(2, 2, 3, commit=1)
    case.tables["index"].pop(0)
    case.tables["index"][0]["last_stable_offset"] -= 1
    return {
        ("index_row_missing", SIDECAR, lost),
        ("commit_misplaced", "", lost),
        ("index_row_wrong", SIDECAR, wrong),
    }


def of_a_message_in_the_partition_itself(case: Case) -> Found:
    """Readers would get it before its transaction's end. The partition has no index."""
    case.sidecar(home=2, side=2)
    txn = case.committed_in_sidecar(0, 0, 1, commit=1)
    case.data(txn, 0, 0)
    return {("entry_misplaced", "", txn)}


def of_an_unlisted_sidecar(case: Case) -> Found:
    """An open transaction's messages, in a partition that its coordinator does not list."""
    case.sidecar(home=1, side=2, first_ongoing_offset=0)
    case.plain(0)
    txn = case.ongoing(0, 1, log=SIDECAR)
    case.tables["participants"].pop()
    return {("participant", SIDECAR, txn)}


def of_a_plain_entry_in_a_sidecar(case: Case) -> Found:
    case.sidecar(home=1, side=1)
    case.plain(0)
    case.plain(0, log=SIDECAR)
    return {("entry_misplaced", SIDECAR, None)}


def of_an_empty_commit(case: Case) -> Found:
    """Of a transaction that has joined a sidecar-buffered partition, and written nothing."""
    case.sidecar(home=1, side=0)
    txn = case.txn(told=(0, 0, 0))
    case.marker(txn, 0, txn_messages=0)
    case.fence(txn, 0, None, None)
    return set()


def of_compacted_commits(case: Case) -> Found:
    """One is whole, the last batch of one stands elsewhere, one is below what retention keeps."""
    case.sidecar(home=7, side=0)
    for row in case.tables["logs"][:2]:
        row |= {"log_start": 2, "head_start": 2}
    whole, shifted, dropped = (case.txn() for _ in range(3))
    for txn, at in ((whole, 2), (shifted, 4)):
        case.marker(txn, at, last_offset=at + 1, txn_messages=2)
        case.fence(txn, at, at, at + 1)
    case.data(whole, 2, 3, COMPACTED)
    case.data(shifted, 4, 4, COMPACTED)
    case.data(shifted, 6, 6, COMPACTED)
    case.data(dropped, 0, 1, COMPACTED)
    case.plain(6)
    return {("commit_misplaced", "", shifted), ("gap", COMPACTED, shifted)}


def of_commits_that_are_compacted_in_part(case: Case) -> Found:
    """A transaction in two partitions and on another broker, another beside it, another
    coordinator's of the same number: each with other numbers of messages, moved and waiting."""
    txn = case.txn()
    case.tables["participants"].clear()
    for number, broker, messages, moved, side in (
        (0, "broker-1", 3, 1, 25),
        (1, "broker-1", 5, 2, 6),
        (0, "broker-2", 7, 4, 8),
    ):
        case.turn_to(number, broker)
        case.sidecar(home=20, side=side)
        case.compacted_in_part(txn, messages, moved, commit=0, waits_at=0)
        case.plain(messages, 9)
        case.plain(16, 19)
    case.turn_to(1)
    case.plain(10, 15)
    case.turn_to(0, "broker-2")
    case.plain(10, 15)
    case.turn_to(0)
    beside = case.txn()
    case.tables["participants"].pop()
    case.compacted_in_part(beside, 2, 1, commit=10, waits_at=10)
    case.let_be_of(case.another)
    assert case.txn() == txn
    case.tables["participants"].pop()
    case.compacted_in_part(txn, 4, 0, commit=12, waits_at=20)
    return set()
