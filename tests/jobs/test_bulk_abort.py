from __future__ import annotations

from collections.abc import Callable

import pytest

from engine import Engine
from engine.model.errors import InvalidRequest, PayloadTooLarge
from engine.model.transaction import TransactionFilter
from engine.model.txn_id import TxnID
from engine.model.txn_status import EndReason, TxnAction, TxnStatus
from tests.jobs.conftest import WHO, drive_to_the_end, start_abort
from txnconsole.audit.models import AuditEntry
from txnconsole.jobs import bulk_abort
from txnconsole.jobs.bulk_abort import matching, start_bulk_abort
from txnconsole.jobs.errors import CountChanged
from txnconsole.jobs.models import Job, JobItem
from txnconsole.jobs.work import JobState

Opened = Callable[..., list[TxnID]]

pytestmark = pytest.mark.usefixtures("whole_jobs")


def test_every_matching_transaction_is_aborted_for_the_reason_given(
    engine: Engine, opened: Opened
) -> None:
    mine, others = opened(3), opened(2, owner="q")
    job = drive_to_the_end(start_abort("p", 3))
    assert (job.state, job.done, job.failed) == (JobState.DONE, 3, 0)
    for txn_id in mine:
        ended = engine.coordinator.get(txn_id)
        assert (ended.status, ended.end_reason) == (TxnStatus.ABORTING, EndReason.OPERATOR)
        assert ended.end_detail == f"stuck (job {job.pk})"
    assert {engine.coordinator.get(each).status for each in others} == {TxnStatus.OPEN}


def test_what_begins_to_match_later_is_not_touched(engine: Engine, opened: Opened) -> None:
    opened(2)
    job = start_abort("p", 2)
    (late,) = opened(1)
    assert drive_to_the_end(job).done == 2
    assert engine.coordinator.get(late).status is TxnStatus.OPEN


def test_each_item_tells_what_came_of_it(engine: Engine, opened: Opened) -> None:
    aborted, committed, left = opened(3)
    job = start_abort("p", 3)
    engine.coordinator.end(aborted, TxnAction.ABORT, reason=EndReason.CLIENT)
    engine.coordinator.end(committed, TxnAction.COMMIT)
    job = drive_to_the_end(job)
    assert (job.state, job.done, job.failed) == (JobState.DONE, 2, 1)
    found = {item.object: item for item in JobItem.objects.filter(job=job)}
    assert found[f"transaction:{left}"].result == "aborted"
    ended = found[f"transaction:{aborted}"]
    assert (ended.state, ended.result, ended.detail) == ("done", "already_ended", "client")
    refused = found[f"transaction:{committed}"]
    assert (refused.state, refused.result) == ("failed", "refused")
    assert "COMMITTING" in refused.detail
    assert engine.coordinator.get(committed).status is TxnStatus.COMMITTING


def test_every_abort_is_in_the_audit_log_under_the_name_of_who_asked(opened: Opened) -> None:
    (txn_id,) = opened(1)
    job = drive_to_the_end(start_abort("p", 1))
    (entry,) = AuditEntry.objects.filter(object=f"transaction:{txn_id}", who="ann")
    assert (entry.action, entry.reason) == ("transaction.abort", "stuck")
    assert entry.request_id == "request-1"
    assert f'"job":{job.pk}' in entry.after


def test_another_number_than_expected_starts_nothing_and_tells_how_many(opened: Opened) -> None:
    opened(2)
    for expected in (1, 3):
        with pytest.raises(CountChanged) as raised:
            start_abort("p", expected)
        assert raised.value.data["count"] == 2
    assert not Job.objects.exists()


def test_more_than_one_job_takes_is_refused_with_the_limit(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_abort, "MAX_TRANSACTIONS", 3)
    opened(4)
    assert len(matching(TransactionFilter(owner="p"))) == 4
    with pytest.raises(PayloadTooLarge, match="more than 3"):
        start_abort("p", 3)
    assert not Job.objects.exists()


def test_the_set_is_found_page_by_page_the_oldest_first(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_abort, "_PAGE", 2)
    assert matching(TransactionFilter(owner="p")) == []
    assert matching(TransactionFilter(owner="p")) == opened(0)
    expected = opened(5)
    assert matching(TransactionFilter(owner="p")) == expected


def test_open_ones_are_meant_unless_the_filter_says_otherwise(
    engine: Engine, opened: Opened
) -> None:
    committing, still_open = opened(2)
    engine.coordinator.end(committing, TxnAction.COMMIT)
    assert matching(TransactionFilter(owner="p")) == [still_open]
    both = (TxnStatus.OPEN, TxnStatus.COMMITTING)
    assert len(matching(TransactionFilter(owner="p", statuses=both))) == 2
    with pytest.raises(InvalidRequest, match="COMMITTED transactions have ended"):
        start_bulk_abort(
            WHO,
            "why",
            TransactionFilter(statuses=(TxnStatus.COMMITTED,)),
            expected_count=0,
            parameters={},
        )


def test_nothing_to_abort_is_done_at_once(engine: Engine, db: None) -> None:
    job = drive_to_the_end(start_abort("nobody", 0))
    assert (job.state, job.total) == (JobState.DONE, 0)
