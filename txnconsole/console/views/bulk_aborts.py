"""Aborting many transactions at once: the dialog, the jobs, one job with its results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django import forms
from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from engine.model.errors import EngineError
from engine.model.txn_id import TxnID
from txnconsole.access.roles import Permission
from txnconsole.console import bulk_abort
from txnconsole.console.bulk_limits import ADMINS_MOST, OPERATORS_MOST, most_at_once
from txnconsole.console.confirmation import Confirmation, Outcome, ReasonForm, ask
from txnconsole.console.inputs import NUMBER
from txnconsole.console.live.job_feed import job_position
from txnconsole.console.numbers import number_of
from txnconsole.console.page import ConsoleRequest, actor_of, go, page, show
from txnconsole.console.slices import page_of
from txnconsole.console.transaction_query import MAX_LENGTH
from txnconsole.jobs import lifecycle
from txnconsole.jobs.bulk_abort import BULK_ABORT, on_their_way
from txnconsole.jobs.models import ItemState, Job, JobItem
from txnconsole.jobs.work import UNFINISHED
from txnconsole.operations import jobs as operations
from txnconsole.quantities import counted

#: Above this the user must type the number, so that nobody aborts hundreds by habit.
TYPED_ABOVE = 20
PAGE_JOBS, PAGE_ITEMS = 40, 60
_RESULTS: dict[str, tuple[str, dict[str, str]]] = {
    "aborted": ("Aborted", {"result": "aborted"}),
    "skipped": ("Skipped", {"result": "already_ended"}),
    "failed": ("Failed", {"state": ItemState.FAILED}),
    "pending": ("Waiting", {"state": ItemState.PENDING}),
}


class BulkAbortForm(ReasonForm):
    """The transactions to abort, the reason, and how many they are."""

    ids = forms.CharField(max_length=ADMINS_MOST * 27, widget=forms.HiddenInput)
    query = forms.CharField(max_length=MAX_LENGTH, required=False, widget=forms.HiddenInput)
    retry_of = forms.IntegerField(required=False, min_value=1, widget=forms.HiddenInput)
    #: Whether more match than these.
    more = forms.BooleanField(required=False, widget=forms.HiddenInput)
    count = forms.CharField(
        required=False,
        max_length=12,
        widget=forms.TextInput(attrs=NUMBER),
    )

    def clean_ids(self) -> list[TxnID]:
        """The frozen set, as the dialog has written it."""
        try:
            return [TxnID.parse(text) for text in self.cleaned_data["ids"].split()]
        except EngineError as error:
            raise forms.ValidationError(error.message) from error

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        ids = data.get("ids", [])
        typed = data.get("count", "").replace(",", "").strip()
        if len(ids) > TYPED_ABOVE and typed != str(len(ids)):
            self.add_error("count", "Type the number of transactions.")
        return data

    @property
    def origin(self) -> dict[str, object]:
        """How they were chosen, for the job's parameters."""
        values = {name: self.cleaned_data.get(name) for name in ("query", "retry_of")}
        return {name: value for name, value in values.items() if value}


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.TRANSACTION_ABORT_ANY)
def bulk_abort_dialog(request: ConsoleRequest) -> HttpResponse:
    """Freeze what was chosen and show what aborting it would do; on POST, start the job."""
    most = most_at_once(request.principal)
    if request.method != "POST":
        selection, reason = _selected(request, most)
        initial = {
            "ids": " ".join(map(str, selection.txn_ids)),
            "reason": reason,
            "more": selection.more,
            **selection.origin,
        }
        return _dialog(request, selection, BulkAbortForm(initial=initial))
    form = BulkAbortForm(request.POST)
    if form.is_valid() and len(form.cleaned_data["ids"]) <= most:
        actor = actor_of(request)
        data = form.cleaned_data
        job = bulk_abort.start(actor, data["reason"], data["ids"], form.origin)
        return go(request, reverse("console:bulk-job", args=[job.pk]))
    ids = form.cleaned_data.get("ids", [])
    selection = bulk_abort.chosen(ids, most=most, origin={})
    selection = replace(selection, more=selection.more or form.cleaned_data.get("more", False))
    # What is confirmed next is what this dialog counts: some may have ended meanwhile.
    form.data = {**request.POST.dict(), "ids": " ".join(map(str, selection.txn_ids))}
    return _dialog(request, selection, form, status=422)


def _selected(request: ConsoleRequest, most: int) -> tuple[bulk_abort.Selection, str]:
    """What the address selects, and the reason that the form begins with."""
    query = request.GET
    retried = number_of(query.get("retry", ""))
    if retried is not None:
        job = lifecycle.find(retried)
        return bulk_abort.not_done_by(job, most=most), job.reason
    if query.get("all") == "1":
        found = bulk_abort.matched(query.get("q", ""), me=request.principal.name, most=most)
        return found, ""
    ids = [TxnID.parse(text) for text in query.getlist("id")]
    return bulk_abort.chosen(ids, most=most, origin={}), ""


def _dialog(
    request: ConsoleRequest,
    selection: bulk_abort.Selection,
    form: BulkAbortForm,
    *,
    status: int = 200,
) -> HttpResponse:
    number = len(selection.transactions)
    context = {
        "selection": selection,
        "number": number,
        "effect": selection.effect() if number else None,
        "named": bulk_abort.NAMED,
        "typed": number > TYPED_ABOVE,
        "most": most_at_once(request.principal),
        "is_operators_most": most_at_once(request.principal) == OPERATORS_MOST,
        "admins_most": ADMINS_MOST,
        "form": form,
    }
    return show(
        request,
        "console/bulk_abort.html",
        context,
        region="console/partials/bulk_abort_form.html",
        status=status,
    )


@require_safe
@page(Permission.JOB_READ)
def bulk_aborts(request: ConsoleRequest) -> HttpResponse:
    """The jobs, newest first."""
    below = number_of(request.GET.get("before", ""))
    jobs = Job.objects.filter(kind=BULK_ABORT).order_by("-id")
    if below is not None:
        jobs = jobs.filter(id__lt=below)
    found, last = page_of(jobs, PAGE_JOBS)
    context = {
        # Jobs get on as transactions end.
        "channel": "txns" if any(job.state in UNFINISHED for job in found) else None,
        "jobs": found,
        "next": last.pk if last else None,
        "first": below is None,
    }
    return show(
        request, "console/bulk_aborts.html", context, region="console/partials/job_table.html"
    )


@require_safe
@page(Permission.JOB_READ)
def bulk_job(request: ConsoleRequest, job_id: int) -> HttpResponse:
    """A job's progress and the result for each item."""
    job = lifecycle.find(job_id)
    shown = request.GET.get("show", "")
    items = JobItem.objects.filter(job=job).order_by("number")
    if shown in _RESULTS:
        items = items.filter(**_RESULTS[shown][1])
    above = number_of(request.GET.get("after", ""), digits=9)
    if above is not None:
        items = items.filter(number__gt=above)
    found, last = page_of(items, PAGE_ITEMS)
    skipped = JobItem.objects.filter(job=job, result="already_ended").count()
    is_over, going = job.state not in UNFINISHED, on_their_way(job)
    context = {
        "job": job,
        "is_over": is_over,
        "going": going,
        "channel": None if is_over and not going else f"job:{job.pk}",
        "position": job_position(job, going),
        "skipped": skipped,
        "aborted": job.done - skipped,
        "waiting": job.total - job.done - job.failed,
        "left": job.total - job.done,
        "items": found,
        "next": last.number if last else None,
        "shown": shown,
        "after": above is not None,
        "results": [
            (name, "Not tried" if is_over and name == "pending" else title)
            for name, (title, _) in _RESULTS.items()
        ],
        "may_cancel": request.principal.may(Permission.JOB_CANCEL),
        "may_abort": request.principal.may(Permission.TRANSACTION_ABORT_ANY),
    }
    return show(request, "console/bulk_job.html", context, region="console/partials/bulk_job.html")


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.JOB_CANCEL)
def cancel_job(request: ConsoleRequest, job_id: int) -> HttpResponse:
    """Ask for a reason, and have a job stop after its current step."""
    job = lifecycle.find(job_id)
    waiting = job.total - job.done - job.failed
    confirmation = Confirmation(
        title=f"Cancel what is left of job {job_id}?",
        effects=[
            f"{counted(waiting, 'transaction')} left; a step under way ends up to a hundred still.",
            "What is aborted stays aborted.",
        ],
        verb="Cancel the rest",
        keep="Let it go on",
        address=reverse("console:cancel-job", args=[job_id]),
        of=f"Job {job_id}",
        back=reverse("console:bulk-job", args=[job_id]),
        harm=True,
    )

    def change(form: ReasonForm) -> Outcome:
        ended = operations.cancel(actor_of(request), job_id, form.cleaned_data["reason"])
        return Outcome(
            title=f"Job {job_id} stops", lines=[f"{ended.done:,} of {ended.total:,} are done."]
        )

    return ask(request, confirmation, ReasonForm, change)
