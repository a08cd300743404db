"""Aborting many at once: frozen when shown, typed when many, limited by role, done by a job."""

from __future__ import annotations

import html
import re

import pytest
from django.test import Client

from engine import Engine
from engine.model.txn_status import TxnAction, TxnStatus
from tests.console.conftest import Orders, begin, finish, signed_in
from txnconsole.audit.models import AuditEntry
from txnconsole.console import bulk_limits
from txnconsole.console.live.job_feed import JobFeed
from txnconsole.jobs import driving
from txnconsole.jobs.models import Job, JobItem

pytestmark = pytest.mark.usefixtures("whole_jobs")

NEW = "/transactions/bulk/new"
REASON = "a dead deployment left these"
HX = {"HX-Request": "true"}


def frozen(text: str) -> str:
    found = re.search(r'name="ids" value="([^"]*)"', text)
    assert found is not None
    return found[1]


def test_the_dialog_tells_the_effect_of_all_of_them_together(
    orders: Orders, operator: Client, engine: Engine
) -> None:
    other = begin(engine)
    address = f"{NEW}?id={orders.open}&id={other}&id={orders.committed}"
    text = operator.get(address, headers=HX).content.decode()
    assert frozen(text) == f"{orders.open} {other}"
    assert 'Abort <span class="num">2</span> transactions?' in text
    assert 'stable position of <b class="num">1</b> partition moves' in text
    assert '<b class="num">2</b> messages' in text
    assert "given back for redelivery" in text
    assert "not open any more" in text
    assert "<html" not in text


def test_all_that_match_are_frozen_when_the_dialog_is_shown(
    orders: Orders, operator: Client, engine: Engine
) -> None:
    text = operator.get(f"{NEW}?all=1&q=owner:alice").content.decode()
    assert frozen(text) == str(orders.open)
    later = begin(engine)
    answer = operator.post(
        NEW, {"ids": frozen(text), "query": "owner:alice", "reason": REASON}, headers=HX
    )
    job = Job.objects.get()
    assert answer["HX-Redirect"] == f"/transactions/bulk/{job.pk}"
    assert job.parameters == {"transactions": 1, "query": "owner:alice"}
    driving.drive("worker")
    assert engine.coordinator.get(orders.open).status is TxnStatus.ABORTING
    assert engine.coordinator.get(later).status is TxnStatus.OPEN
    page = operator.get(f"/transactions/bulk/{job.pk}").content.decode()
    assert REASON in page
    assert f"/transactions/{orders.open}" in page
    entry = AuditEntry.objects.filter(action="transaction.bulk_abort").get()
    assert (entry.who, entry.reason, entry.result) == ("a-operator", REASON, "done")


@pytest.mark.parametrize(
    ("reason", "count", "told"),
    [("short", "21", "at least 8 characters"), (REASON, "", "Type 21"), (REASON, "12", "Type 21")],
)
def test_more_than_twenty_need_the_number_typed(
    engine: Engine, operator: Client, reason: str, count: str, told: str
) -> None:
    ids = " ".join(str(begin(engine)) for _ in range(21))
    answer = operator.post(NEW, {"ids": ids, "reason": reason, "count": count}, headers=HX)
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert not Job.objects.exists()
    done = operator.post(NEW, {"ids": ids, "reason": REASON, "count": "21"}, headers=HX)
    assert done.status_code == 204


def test_a_dialog_that_is_shown_again_asks_for_the_number_that_is_still_open(
    engine: Engine, operator: Client
) -> None:
    begun = [begin(engine) for _ in range(23)]
    finish(engine, begun[0], TxnAction.COMMIT)
    form = {"ids": " ".join(map(str, begun)), "reason": "short", "count": "23"}
    again = operator.post(NEW, form, headers=HX).content.decode()
    assert "Type 22 to abort so many" in again
    assert frozen(again) == " ".join(map(str, begun[1:]))
    form |= {"ids": frozen(again), "reason": REASON, "count": "22"}
    assert operator.post(NEW, form, headers=HX).status_code == 204


def test_an_operator_takes_fewer_at_once_than_an_administrator(
    engine: Engine, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_limits, "OPERATORS_MOST", 2)
    ids = [str(begin(engine)) for _ in range(3)]
    text = operator.get(f"{NEW}?all=1&q=state:open").content.decode()
    assert frozen(text) == " ".join(ids[:2])
    assert "More match" in text
    sent = {"ids": " ".join(ids[:2]), "reason": "short", "more": "True"}
    assert "More match" in operator.post(NEW, sent, headers=HX).content.decode()
    refused = operator.post(NEW, {"ids": " ".join(ids), "reason": REASON}, headers=HX)
    assert refused.status_code == 422
    assert not Job.objects.exists()
    admin = signed_in("admin")
    assert admin.post(NEW, {"ids": " ".join(ids), "reason": REASON}).status_code == 302


def test_a_viewer_may_look_at_jobs_and_start_none(orders: Orders, viewer: Client) -> None:
    assert viewer.get(f"{NEW}?id={orders.open}").status_code == 403
    assert viewer.get("/transactions/bulk").status_code == 200
    assert "transaction.abort_any" in viewer.get("/transactions").content.decode()


def test_what_failed_is_tried_again_and_what_another_aborted_is_skipped(
    orders: Orders, operator: Client, engine: Engine
) -> None:
    gone, other = begin(engine), begin(engine)
    ids = f"{orders.open} {gone} {other}"
    finish(engine, gone, TxnAction.COMMIT)
    finish(engine, other, TxnAction.ABORT)
    operator.post(NEW, {"ids": ids, "reason": REASON})
    driving.drive("worker")
    job = Job.objects.get()
    text = operator.get(f"/transactions/bulk/{job.pk}").content.decode()
    assert "Somebody else had aborted it" in text
    assert "Retry failed 1…" in text
    assert ">Done, 1 failed<" in text
    assert '<a href="?show=failed">1<' in text
    listed = operator.get("/transactions/bulk").content.decode()
    assert ">Done, 1 failed<" in listed
    assert f'<a href="/transactions/bulk/{job.pk}?show=failed">1<' in listed
    assert "not carried out yet" in text
    finish(engine, orders.open, TxnAction.ABORT)
    text = operator.get(f"/transactions/bulk/{job.pk}").content.decode()
    assert "not carried out yet" not in text
    assert "data-channel" not in text
    failed = operator.get(f"/transactions/bulk/{job.pk}?show=failed").content.decode()
    assert f'/transactions/{gone}"' in failed
    assert f'/transactions/{orders.open}"' not in failed
    again = operator.get(f"{NEW}?retry={job.pk}").content.decode()
    assert "None of the" in again
    JobItem.objects.filter(job=job, number=2).update(object=f"transaction:{begin(engine)}")
    again = operator.get(f"{NEW}?retry={job.pk}").content.decode()
    assert REASON in again
    assert f'name="retry_of" value="{job.pk}"' in again


def test_the_rest_of_a_job_is_cancelled_with_a_reason(
    orders: Orders, operator: Client, engine: Engine
) -> None:
    operator.post(NEW, {"ids": str(orders.open), "reason": REASON})
    job = Job.objects.get()
    page = operator.get(f"/transactions/bulk/{job.pk}").content.decode()
    assert f'data-channel="job:{job.pk}"' in page
    assert "Cancel remaining…" in page
    cancel = f"/transactions/bulk/{job.pk}/cancel"
    assert operator.post(cancel, {"reason": "no"}, headers=HX).status_code == 422
    assert operator.post(cancel, {"reason": "wrong deployment"}, headers=HX).status_code == 200
    driving.drive("worker")
    assert engine.coordinator.get(orders.open).status is TxnStatus.OPEN
    entry = AuditEntry.objects.filter(action="job.cancel").get()
    assert (entry.object, entry.reason) == (f"job:{job.pk}", "wrong deployment")
    page = operator.get(f"/transactions/bulk/{job.pk}").content.decode()
    assert "Waiting" not in page
    assert ">Not tried<" in page
    assert "Try the other 1…" in page
    again = operator.get(f"{NEW}?retry={job.pk}").content.decode()
    assert frozen(again) == str(orders.open)
    assert entry.after == '{"done":0,"failed":0,"state":"cancelled"}'


def test_a_job_is_watched_until_all_brokers_have_carried_its_aborts_out(
    orders: Orders, operator: Client, engine: Engine
) -> None:
    """A broker that is away keeps back what the job has long decided."""
    other = begin(engine)
    finish(engine, other, TxnAction.ABORT)
    engine.coordinator.end(begin(engine), TxnAction.ABORT)
    operator.post(NEW, {"ids": str(orders.open), "reason": REASON})
    driving.drive("worker")
    address = f"/transactions/bulk/{Job.objects.get().pk}"
    page = operator.get(address).content.decode()
    assert "1 not carried out yet" in page
    assert f'data-channel="job:{Job.objects.get().pk}"' in page
    feed = JobFeed(Job.objects.get().pk)
    before = feed.look().position
    assert f'data-position="{before}"' in page
    finish(engine, orders.open, TxnAction.ABORT)
    assert feed.look().position != before
    page = operator.get(address).content.decode()
    assert "not carried out yet" not in page
    assert "data-channel" not in page


def test_the_list_of_jobs_follows_those_that_are_not_over(
    orders: Orders, operator: Client, engine: Engine
) -> None:
    operator.post(NEW, {"ids": str(orders.open), "reason": REASON})
    assert 'data-channel="txns"' in operator.get("/transactions/bulk").content.decode()
    assert "<html" not in operator.get("/transactions/bulk", headers=HX).content.decode()
    driving.drive("worker")
    assert "data-channel" not in operator.get("/transactions/bulk").content.decode()


def test_an_empty_list_of_jobs_and_a_job_that_is_not_there(engine: Engine, viewer: Client) -> None:
    assert (
        "No transactions have been aborted together"
        in viewer.get("/transactions/bulk").content.decode()
    )
    assert viewer.get("/transactions/bulk/99").status_code == 404


def test_a_jobs_filter_is_shown_as_a_program_has_sent_it(viewer: Client) -> None:
    sent = {"owner": "alice", "overdue": True}
    job = Job.objects.create(
        kind="bulk_abort", parameters={"filter": sent}, who="ann", reason=REASON, total=0
    )
    page = html.unescape(viewer.get(f"/transactions/bulk/{job.pk}").content.decode())
    assert '{"owner": "alice", "overdue": true}' in page
