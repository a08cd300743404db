"""The checker finds each anomaly in a history that holds it, and none in one that is right."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.checker import story as told
from tests.checker.anomalies import Kind
from tests.checker.check import check
from tests.checker.history import Begin, End, Extend, Fault, Look, Nack, Overdue, read
from tests.checker.simulation import simulate
from tests.checker.story import A, B, C, D, Story, ack, fetch, produce, receive, story

Mutation = Callable[[Story], None]
CLEAN_SEEDS = 40


def kinds(history: Story) -> set[Kind]:
    return check(history.values()).kinds


def aborted_read(s: Story) -> None:
    s.change("last", records=(*told.VISIBLE[:2], (2, "b0"), *told.VISIBLE[2:]))


def aborted_delivery(s: Story) -> None:
    s.change("receive", messages=(*s["receive"].messages, (told.P, 2, "b0", "1:2:0:0")))


def dirty_read(s: Story) -> None:
    s.change("early", records=((0, "a0"),), next_offset=1, stable=0)


def refused_read(s: Story) -> None:
    s.refuse("y", "SequenceOutOfOrder")


def unwritten_read(s: Story) -> None:
    s.change("last", records=(*told.VISIBLE, (9, "ghost")), next_offset=10, last=9, stable=9)


def lost_write(s: Story) -> None:
    s.change("last", records=told.VISIBLE[:4])


def lost_transaction(s: Story) -> None:
    s.change("last", records=(*told.VISIBLE[:3], *told.VISIBLE[4:]))


def torn_transaction(s: Story) -> None:
    s.change("last", records=told.VISIBLE[1:])


def torn_in_doubt(s: Story) -> None:
    """Nobody heard of the commit, but half of it shows."""
    for name in ("between", "read", "kept", "committed_a", "looked"):
        del s[name]
    s.forget("commit_a")
    s.change("last", records=told.VISIBLE[1:])


def torn_group(s: Story) -> None:
    s.forget("group")
    s.insert("y", "lookd", Look(txn=C, seen="COMMITTED"))
    s.insert("looked", "looke", Look(txn=D, seen="COMMITTED"))
    s.change("ack_d", answer="info")


def duplicate(s: Story) -> None:
    s.change("last", records=(*told.VISIBLE, (9, "y")), next_offset=10, last=9, stable=9)


def reordered_log(s: Story) -> None:
    s.change("y", first=4)
    s.change("last", records=(*told.VISIBLE[:3], (4, "y"), (6, "c0")))


def reordered_answer(s: Story) -> None:
    s.change("read", records=((1, "a1"), (0, "a0"), (3, "x")))


def offset_reused(s: Story) -> None:
    s.change("c0", first=3)


def answers_disagree(s: Story) -> None:
    s.insert("y", "again", produce("y", 9, sequence=1, duplicate=True))


def skipped_read(s: Story) -> None:
    s.change("read", records=((0, "a0"), (3, "x")))


def read_past_stable(s: Story) -> None:
    s.change("last", stable=7)


def stable_went_back(s: Story) -> None:
    s.change("kept", stable=4)


def stable_past_open(s: Story) -> None:
    s.change("early", stable=2)


def log_shrank(s: Story) -> None:
    s.change("between", last=2)


def committed_on_list(s: Story) -> None:
    s.change("read", aborted=((A, 0), (B, 2)))


def missing_on_list(s: Story) -> None:
    s.change("kept", aborted=())


def reversed_decision(s: Story) -> None:
    s.change("aborted_b", seen="COMMITTED")


def success_after_conflict(s: Story) -> None:
    """409 to a commit, then success for the same request."""
    s.insert("begin_a", "refused", End(commit=(A,), code="InvalidTxnStatus"))


def unasked_commit(s: Story) -> None:
    s.insert("b0", "seen", Look(txn=A, seen="COMMITTING"))
    s.change("commit_a", start=s["seen"].end + 1)


def unasked_abort(s: Story) -> None:
    s.insert("b0", "seen", Look(txn=B, seen="ABORTING"))


def early_expiry(s: Story) -> None:
    """The deadline had been moved, and it was aborted by the old one."""
    s.insert("begin_b", "extended", Extend(txn=B, timeout_ms=60_000))
    s.change("begin_b", timeout_ms=0)
    s.insert("x", "seen", Look(txn=B, seen="ABORTING"))


def status_went_back(s: Story) -> None:
    s.insert("y", "open", Look(txn=A, seen="OPEN"))


def joined_after_end(s: Story) -> None:
    s.insert("committed_a", "a2", produce("a2", 4, A, 2))
    s.change("last", records=(*told.VISIBLE[:3], (4, "a2"), *told.VISIBLE[3:]))


def acknowledged_after_end(s: Story) -> None:
    s.insert("receive", "late", ack(1, txn=A))
    s.change("ack_d", answer="info")


def id_reused(s: Story) -> None:
    s.insert("begin_d", "again", Begin(txn=D))


def ids_out_of_order(s: Story) -> None:
    s.change("begin_d", txn="0:0")
    s.change("begin_a", txn="0:9")


def acknowledged_twice(s: Story) -> None:
    s.insert("y", "again", ack(1, txn="1:0"))
    s.insert("again", "commits", End(commit=("1:0",), statuses={"1:0": "COMMITTING"}))
    s.change("group", commit=(C, D), abort=(), statuses={C: "COMMITTING", D: "COMMITTING"})
    s.change("drain", messages=s["drain"].messages[1:])


def held_by_two(s: Story) -> None:
    s.change("conflict", answer="ok", code=None)


def acknowledged_after_plain(s: Story) -> None:
    s.insert("ack_x", "again", ack(3, txn=D))


def held_acknowledged(s: Story) -> None:
    s.insert("ack_d", "plain", ack(1))
    s.change("drain", messages=s["drain"].messages[1:])


def redelivered_held(s: Story) -> None:
    s.insert("ack_x", "again", receive((1, "a1")))


def redelivered_acked(s: Story) -> None:
    s.insert("y", "again", receive((0, "a0")))


def redelivered_plain(s: Story) -> None:
    s.change("drain", messages=(*s["drain"].messages, (told.P, 3, "x", "1:3:0:0")))


def lost_aborted_ack(s: Story) -> None:
    s.change("drain", messages=s["drain"].messages[1:])


def lost_message(s: Story) -> None:
    s.change("drain", messages=s["drain"].messages[:1])


def delivered_twice(s: Story) -> None:
    s.change("drain", messages=(*s["drain"].messages, s["drain"].messages[1]))


def two_active(s: Story) -> None:
    s.insert("receive", "active", receive((1, "a1"), lease_ms=1000))
    s.insert("active", "deposed", receive((3, "x"), lease_ms=1000))
    s.change("deposed", consumer="d")


def key_with_two(s: Story) -> None:
    s.insert("y", "one", receive((6, "k.0"), keyed=True))
    s.insert("one", "two", receive((8, "k.1"), keyed=True))
    s.change("two", consumer="d")


def false_conflict(s: Story) -> None:
    s.refuse("ack_c", "TransactionConflict")
    s.change("drain", messages=((told.P, 0, "a0", "1:0:0:0"), *s["drain"].messages))
    del s["conflict"]


def stuck_transaction(s: Story) -> None:
    s.change("looked", txn=C, seen="COMMITTING")


def stuck_stable(s: Story) -> None:
    s.change("last", last=9)


MUTATIONS: dict[Kind, tuple[Mutation, ...]] = {
    Kind.ABORTED_READ: (aborted_read, aborted_delivery),
    Kind.DIRTY_READ: (dirty_read,),
    Kind.REFUSED_READ: (refused_read,),
    Kind.UNWRITTEN_READ: (unwritten_read,),
    Kind.LOST_WRITE: (lost_write, lost_transaction),
    Kind.TORN_TRANSACTION: (torn_transaction, torn_in_doubt),
    Kind.TORN_GROUP: (torn_group,),
    Kind.DUPLICATE: (duplicate,),
    Kind.REORDERED_LOG: (reordered_log, reordered_answer),
    Kind.OFFSET_REUSED: (offset_reused,),
    Kind.ANSWERS_DISAGREE: (answers_disagree,),
    Kind.SKIPPED_READ: (skipped_read,),
    Kind.READ_PAST_STABLE: (read_past_stable,),
    Kind.STABLE_WENT_BACK: (stable_went_back,),
    Kind.STABLE_PAST_OPEN: (stable_past_open,),
    Kind.LOG_SHRANK: (log_shrank,),
    Kind.WRONG_ABORTED_LIST: (committed_on_list, missing_on_list),
    Kind.DECISION_REVERSED: (reversed_decision, success_after_conflict),
    Kind.UNASKED_COMMIT: (unasked_commit,),
    Kind.UNASKED_ABORT: (unasked_abort, early_expiry),
    Kind.STATUS_WENT_BACK: (status_went_back,),
    Kind.JOINED_AFTER_END: (joined_after_end, acknowledged_after_end),
    Kind.ID_REUSED: (id_reused,),
    Kind.IDS_OUT_OF_ORDER: (ids_out_of_order,),
    Kind.DOUBLE_ACK: (acknowledged_twice, held_by_two, acknowledged_after_plain),
    Kind.HELD_ACKED: (held_acknowledged,),
    Kind.REDELIVERED_HELD: (redelivered_held,),
    Kind.REDELIVERED_ACKED: (redelivered_acked, redelivered_plain),
    Kind.LOST_ABORTED_ACK: (lost_aborted_ack,),
    Kind.LOST_MESSAGE: (lost_message,),
    Kind.DELIVERED_TWICE: (delivered_twice,),
    Kind.TWO_ACTIVE: (two_active,),
    Kind.KEY_SHARED_OUT: (key_with_two,),
    Kind.FALSE_CONFLICT: (false_conflict,),
    Kind.STUCK_TRANSACTION: (stuck_transaction,),
    Kind.STUCK_STABLE: (stuck_stable,),
}


def test_every_anomaly_has_a_history_that_holds_it() -> None:
    assert set(MUTATIONS) == set(Kind)


def test_the_story_is_right() -> None:
    assert check(story().values()).anomalies == ()


@pytest.mark.parametrize(
    ("kind", "mutate"),
    [(kind, mutate) for kind, mutations in MUTATIONS.items() for mutate in mutations],
)
def test_a_history_that_holds_an_anomaly_is_refused(kind: Kind, mutate: Mutation) -> None:
    history = story()
    mutate(history)
    assert kind in kinds(history)


def test_evidence_names_the_operations_that_prove_it() -> None:
    history = story()
    aborted_read(history)
    anomalies = {anomaly.kind: anomaly for anomaly in check(history.values()).anomalies}
    anomaly = anomalies[Kind.ABORTED_READ]
    assert anomaly.evidence == (history["b0"], history["abort_b"], history["last"])


@pytest.mark.parametrize("name", ["a0", "commit_a", "abort_b", "ack_c", "ack_x", "group", "y"])
def test_an_answer_that_was_lost_accuses_nobody(name: str) -> None:
    history = story()
    history.forget(name)
    assert kinds(history) == set()


def test_a_transaction_past_its_deadline_may_be_aborted_unasked() -> None:
    history = story()
    del history["abort_b"]
    history.insert("x", "overdue", Overdue(txn=B))
    assert kinds(history) == set()


def test_what_was_given_back_may_be_delivered_and_held_again() -> None:
    history = story()
    nack = Nack(subscription=told.S, consumer="c", messages=((told.P, 0, "1:0:0:0"),))
    history.insert("receive", "nack", nack)
    history.insert("group", "again", receive((1, "a1")))
    assert kinds(history) == set()


def test_a_consumer_takes_over_when_the_others_lease_has_run_out_or_a_fault_has_ended_it() -> None:
    late = story()
    two_active(late)
    late["deposed"].end = late["active"].start + 600_000_000
    assert Kind.TWO_ACTIVE not in kinds(late)
    broken = story()
    two_active(broken)
    fault = Fault(kind="consumers time out", start=broken["begin_a"].start, end=broken["x"].end)
    broken["fault"] = fault
    assert Kind.TWO_ACTIVE not in kinds(broken)


def test_a_key_goes_to_another_when_nothing_of_it_is_outstanding() -> None:
    for given_up in (
        ack(6),
        Nack(subscription=told.S, consumer="c", messages=((told.P, 6, "1:6:0:0"),)),
        Fault(kind="derived state lost"),
    ):
        history = story()
        key_with_two(history)
        history.insert("one", "given up", given_up)
        history["two"].start, history["two"].end = given_up.end + 1, given_up.end + 2
        assert Kind.KEY_SHARED_OUT not in kinds(history)


def test_reads_of_different_ends_of_the_log_agree() -> None:
    history = story()
    history.insert("y", "tail", fetch(((6, "c0"), (8, "y")), 9, 8, 8, from_offset=5))
    assert kinds(history) == set()


@pytest.mark.parametrize("seed", range(CLEAN_SEEDS))
def test_a_right_engine_under_trouble_raises_no_alarm(seed: int) -> None:
    verdict = check(simulate(seed, steps=250))
    assert not verdict.anomalies, str(verdict)
    assert verdict.count("end", "ok") > 10


def test_the_same_seed_makes_the_same_history() -> None:
    first, second = simulate(7, steps=100), simulate(7, steps=100)
    assert list(first) == list(second)


def test_a_history_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    history = simulate(3, steps=100)
    history.write(tmp_path / "history.jsonl")
    assert read(tmp_path / "history.jsonl") == list(history)


@pytest.mark.deep
def test_checking_takes_work_in_proportion() -> None:
    """Lines that are run, not seconds: whoever shares the machine does not count."""

    def lines(places: int) -> int:
        history = [op for place in range(places) for op in simulate(place, steps=60, place=place)]
        count = 0

        def line(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal count
            count += event == "line"
            return line

        before = sys.gettrace()
        sys.settrace(line)
        try:
            verdict = check(history)
        finally:
            sys.settrace(before)
        assert not verdict.anomalies, str(verdict)
        return count

    assert lines(80) < 4.5 * lines(20)


def test_a_cumulative_ack_takes_what_was_delivered_and_nobody_heard_of() -> None:
    s = story()
    s.insert("y", "unheard", receive((6, "c0"), (8, "y")))
    s.insert("unheard", "upto", ack(8, cumulative=True))
    s.change("unheard", answer="info", messages=())
    s.change("drain", messages=s["drain"].messages[:1])
    assert Kind.LOST_MESSAGE not in kinds(s)
    s.change("upto", answer="fail", code="ConsumerBusy")
    assert Kind.LOST_MESSAGE in kinds(s)


def test_a_cumulative_ack_leaves_what_an_abort_has_not_given_back_yet() -> None:
    s = story()
    s.insert("group", "upto", ack(3, cumulative=True))
    assert kinds(s) == set()
    s.insert("group", "gone", Look(txn=D, seen="ABORTED"))
    s["upto"].start, s["upto"].end = s["gone"].end + 1, s["gone"].end + 2
    assert kinds(s) == {Kind.REDELIVERED_ACKED}
