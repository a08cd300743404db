"""Pipeline runs: what runs, the results, starting, repeating and cancelling."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpResponse, HttpResponseRedirect, JsonResponse, QueryDict
from django.urls import reverse
from django.utils.text import capfirst
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from engine.model.errors import EngineError
from txnconsole.access.roles import Permission
from txnconsole.console.confirmation import (
    KEPT,
    Confirmation,
    Outcome,
    ReasonForm,
    ask,
    tell_refusal,
)
from txnconsole.console.figure_charts import read_charts
from txnconsole.console.figures import DIMENSIONS, RESOLUTIONS, PageEnd, read_figures
from txnconsole.console.inputs import FIELD, TEXT
from txnconsole.console.newer import Newer
from txnconsole.console.numbers import number_of
from txnconsole.console.page import (
    ConsoleRequest,
    actor_of,
    forbidden,
    page,
    page_address,
    query_without,
    show,
)
from txnconsole.console.pipeline_page import (
    pretty,
    read_overview,
    read_position,
    read_runs,
)
from txnconsole.console.slices import slice_of
from txnconsole.console.transaction_views import COUNTED
from txnconsole.jobs.work import UNFINISHED, JobState
from txnconsole.runs import lifecycle, operating
from txnconsole.runs.disclosing import as_shown_to
from txnconsole.runs.kinds import KINDS, Kind, kind_named
from txnconsole.runs.models import PipelineRun, RunOrigin

#: How many of a run's partitions, and of its findings, a page lists.
_ROWS = 30
#: Of the figures that a run has told, those that have a place of their own.
_SHOWN_APART = {"offsets", "rows_in", "rows_out"}


class RunForm(forms.Form):
    """The parameters of a job as text; the job itself decides what each means."""

    def __init__(self, job: Kind, given: QueryDict | None, initial: dict[str, Any]) -> None:
        super().__init__(given, initial=initial)
        for each in job.parameters:
            self.fields[each.name] = forms.CharField(
                label=f"{each.title} (required)" if each.required else each.title,
                help_text=capfirst(each.help),
                required=False,
                widget=forms.TextInput(TEXT | {"required": each.required}),
            )
        self.fields["reason"] = forms.CharField(
            required=False,
            max_length=500,
            widget=forms.TextInput(FIELD | {"autocomplete": "off", "placeholder": KEPT}),
        )


@require_safe
@page(Permission.JOB_READ)
def pipeline(request: ConsoleRequest) -> HttpResponse:
    """The jobs, the newest audit, the queue, and all runs."""
    kind, state = request.GET.get("kind", ""), request.GET.get("state", "")
    below = number_of(request.GET.get("before", ""))
    listed = query_without(request, "before", "above")
    runs = read_runs(
        kind=kind, state=state, below=below, above=number_of(request.GET.get("above", ""))
    )
    overview = read_overview(request.standing().now)
    context = {
        "channel": "pipeline",
        "position": read_position(),
        "overview": overview,
        "jobs": [(job, operating.lacking(job.kind, request.principal)) for job in overview.jobs],
        "most_counted": COUNTED,
        "list": runs,
        "newer": Newer(runs.newer, page_address("pipeline", listed)),
        "region": _region(below, runs.known, listed),
        "kind": kind,
        "state": state,
        "kinds": list(KINDS),
        "states": JobState.values,
        "first": below is None,
        "query": listed,
    }
    return show(request, "console/pipeline.html", context, region="console/partials/pipeline.html")


def _region(below: int | None, known: int, query: str) -> str:
    """What the page reads again: the same runs, whatever has been started since."""
    place = f"above={known}" if below is None else f"before={below}"
    return page_address("pipeline", f"{query}&{place}" if query else place)


@require_safe
@page(Permission.JOB_READ)
def run(request: ConsoleRequest, run_id: int) -> HttpResponse:
    """One run: its progress, its parameters, its results."""
    context = {"channel": "pipeline", "position": read_position()} | _shown(request, run_id)
    return show(request, "console/run.html", context, region="console/partials/run.html")


@require_safe
@page(Permission.JOB_READ)
def figures(request: ConsoleRequest) -> HttpResponse:
    """What the job ``metrics`` has computed, for one dimension."""
    by, per, name = _asked_figures(request)
    before = PageEnd.parse(request.GET.get("before", ""))
    context = {
        "by": by,
        "per": per,
        "name": name,
        "dimensions": DIMENSIONS,
        "resolutions": RESOLUTIONS,
        "figures": read_figures(dimension=by, resolution=per, name=name, before=before),
        "first": before is None,
    }
    return show(request, "console/figures.html", context)


@require_safe
@page(Permission.JOB_READ)
def figure_charts(request: ConsoleRequest) -> HttpResponse:
    """The charts of the same figures, as JSON."""
    by, per, name = _asked_figures(request)
    drawn = read_charts(dimension=by, resolution=per, name=name)
    return JsonResponse(drawn, headers={"Cache-Control": "no-store"})


def _asked_figures(request: ConsoleRequest) -> tuple[str, str, str]:
    """The dimension, the resolution and the name that are asked for; the first of each for an
    unknown one."""
    by, per = request.GET.get("by", ""), request.GET.get("per", "")
    return (
        by if by in DIMENSIONS else DIMENSIONS[0],
        per if per in RESOLUTIONS else RESOLUTIONS[0],
        request.GET.get("name", "").strip(),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.JOB_START)
def start(request: ConsoleRequest, kind: str) -> HttpResponse:
    """The form of a job's parameters; on POST, start it. Wrong parameters are a 422, with
    the form."""
    job = kind_named(kind)
    if missing := operating.lacking(job, request.principal):
        return forbidden(request, missing)
    given = request.POST if request.method == "POST" else None
    form = RunForm(job, given, request.GET.dict())
    if form.is_valid():
        try:
            return _to(_started(request, kind, form))
        except EngineError as error:
            names = {f"parameters.{name}": name for name in form.fields}
            tell_refusal(form, error, names=names, sentence="It {}.")
    status = 422 if form.errors else 200
    return show(request, "console/start_run.html", {"job": job, "form": form}, status=status)


def _started(request: ConsoleRequest, kind: str, form: RunForm) -> PipelineRun:
    parameters = dict(form.cleaned_data)
    reason = parameters.pop("reason")
    return operating.start(
        kind,
        parameters,
        principal=request.principal,
        actor=actor_of(request),
        origin=RunOrigin.CONSOLE,
        reason=reason,
    )


@require_POST
@page(Permission.JOB_START)
def repeat(request: ConsoleRequest, run_id: int) -> HttpResponse:
    """Start another run with the same parameters."""
    made = operating.repeat(
        run_id, principal=request.principal, actor=actor_of(request), origin=RunOrigin.CONSOLE
    )
    return _to(made)


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.JOB_CANCEL)
def cancel(request: ConsoleRequest, run_id: int) -> HttpResponse:
    """Ask for a reason, and have a run end."""
    found = lifecycle.find(run_id)
    if found.state == JobState.QUEUED:
        effects = ["It has not begun, and never will."]
    else:
        effects = [
            "Its job is stopped within seconds, and loses what it is at.",
            "What it has written stays.",
        ]
    confirmation = Confirmation(
        title=f"Cancel run {run_id}, {found.kind}?",
        effects=[*effects, "It can be run again with the same parameters."],
        verb="Cancel the run",
        keep="Let it go on",
        address=reverse("console:cancel-run", args=[run_id]),
        of=f"Run {run_id}",
        back=reverse("console:run", args=[run_id]),
        harm=True,
    )

    def change(form: ReasonForm) -> Outcome:
        run = operating.cancel(run_id, actor=actor_of(request), reason=form.cleaned_data["reason"])
        done = "is cancelled" if run.state == JobState.CANCELLED else "stops"
        return Outcome(title=f"Run {run_id} {done}")

    return ask(request, confirmation, ReasonForm, change)


def _shown(request: ConsoleRequest, run_id: int) -> dict[str, object]:
    found = as_shown_to(request.principal, lifecycle.find(run_id))
    job = KINDS.get(found.kind)
    figures = {name: value for name, value in found.figures.items() if name not in _SHOWN_APART}
    offsets = sorted(found.figures.get("offsets", {}).items(), key=_by_partition)
    result = dict(found.result or {})
    findings = slice_of(result.get("findings", []), request.GET.get("findings", ""), _ROWS)
    return {
        "run": found,
        "job": job,
        "unfinished": found.state in UNFINISHED,
        "now": request.standing().now,
        "figures": figures,
        "offsets": slice_of(offsets, request.GET.get("offsets", ""), _ROWS),
        "findings": findings,
        "rules": [
            (rule, count, result.get("rules", {}).get(rule, ""))
            for rule, count in sorted(result.get("found", {}).items())
        ],
        "result": pretty({k: v for k, v in result.items() if k not in ("findings", "rules")}),
        "missing": operating.lacking(job, request.principal),
    }


def _by_partition(item: tuple[str, object]) -> tuple[str, int]:
    """Sorts by topic, then by number: ``orders:10`` comes after ``orders:9``."""
    topic, _, number = item[0].rpartition(":")
    return topic, int(number)


def _to(made: PipelineRun) -> HttpResponse:
    return HttpResponseRedirect(reverse("console:run", args=[made.pk]))
