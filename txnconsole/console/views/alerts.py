"""What fires, what has fired, and what operators do about it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.db.models import QuerySet
from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from engine.model.errors import InvalidRequest
from txnconsole.access.roles import Permission
from txnconsole.alerts import handling, reading
from txnconsole.alerts.kinds import KINDS, Kind
from txnconsole.alerts.models import Alert, Silence
from txnconsole.alerts.silencing import HOLDS
from txnconsole.alerts.states import AlertState
from txnconsole.console.alert_forms import AcknowledgeForm, SilenceForm, refusal_shown_in
from txnconsole.console.inputs import moment_of
from txnconsole.console.live.alerts_feed import alerts_position
from txnconsole.console.newer import MOST, Newer
from txnconsole.console.numbers import number_of
from txnconsole.console.object_links import address_of, object_named
from txnconsole.console.page import (
    ConsoleRequest,
    actor_of,
    go,
    page,
    page_address,
    query_without,
    show,
)
from txnconsole.console.slices import page_of, slice_of_query

#: Rows are large here; more of them would exceed the number of elements that a page may have.
PAGE_ROWS = 40
_FIRING_ROWS = 24
_PENDING_ROWS = 10
#: An alert has the time of its measurement, and is stored within so much of it.
_WRITTEN_WITHIN = timedelta(minutes=1)


@require_safe
@page(Permission.ALERT_READ)
def alerts(request: ConsoleRequest) -> HttpResponse:
    """What fires, the worst first, and what is about to. While the page is open, its list keeps its
    order; new alerts are only counted until the user asks for them."""
    # Read before the alerts, so that what begins in between is counted as new.
    standing = request.standing()
    position = alerts_position(standing)
    keys, since = _listed(request)
    if keys:
        firing, newer = reading.as_listed(standing, keys, since)
    else:
        firing, newer = reading.firing(standing, _FIRING_ROWS), 0
        since = standing.now if len(firing) >= _FIRING_ROWS else None
    kept = {"listed": ",".join(one.key for one in firing)}
    if since is not None:
        kept["since"] = since.isoformat()
    pending, later = reading.about_to_fire(_PENDING_ROWS)
    resolved = Alert.objects.filter(state=AlertState.RESOLVED)
    context = rights(request) | {
        "channel": "alerts",
        "position": position,
        "firing": firing,
        "newer": Newer(newer, page_address("alerts")),
        # An empty list can be read again: no row of it can move.
        "region": page_address("alerts", urlencode(kept) if firing else ""),
        "unlisted": reading.unlisted(standing, firing, newer),
        "pending": pending,
        "later": later,
        "last": resolved.first() if not firing else None,
        "evaluated_at": standing.evaluated_at,
        "now": standing.now,
    }
    return show(
        request, "console/alerts/firing.html", context, region="console/alerts/_firing.html"
    )


def _listed(request: ConsoleRequest) -> tuple[list[str], datetime | None]:
    """What the page lists already, in its order; and when it was read, if that was not all."""
    keys = request.GET.get("listed", "").split(",")[: 2 * PAGE_ROWS]
    known = [key for key in keys if number_of(key.removeprefix("w")) is not None]
    return known, moment_of(request.GET.get("since", ""))


@require_safe
@page(Permission.ALERT_READ)
def history(request: ConsoleRequest) -> HttpResponse:
    """What has fired and is resolved, newest first."""
    resolved, about, rule = _resolved(request)
    below = number_of(request.GET.get("before", ""))
    if below is not None:
        resolved = resolved.filter(pk__lt=below)
    # Read before the alerts, so that what is resolved in between is counted as new.
    standing = request.standing()
    since = standing.now - _WRITTEN_WITHIN
    counted = resolved.filter(resolved_at__gte=since).count()
    position = alerts_position(standing)
    found, last = page_of(resolved, PAGE_ROWS)
    context = rights(request) | {
        "channel": None if below is not None else "alerts",
        "position": position,
        "since": since.isoformat(),
        "counted": counted,
        "alerts": found,
        "below": last.pk if last else None,
        "first": below is None,
        "about": about,
        "rule": rule,
        "query": query_without(request, "before"),
    }
    return show(request, "console/alerts/history.html", context)


@require_safe
@page(Permission.ALERT_READ)
def resolved_since(request: ConsoleRequest) -> HttpResponse:
    """How many alerts of the filter were resolved after a moment, besides those that the page has
    counted already; for the history's script."""
    resolved, _, _ = _resolved(request)
    since = moment_of(request.GET.get("since", ""))
    if since is None:
        raise InvalidRequest("Say since which moment, with its zone.", field="since")
    counted = number_of(request.GET.get("counted", "")) or 0
    count = resolved.filter(resolved_at__gte=since)[: counted + MOST + 1].count() - counted
    address = page_address("alert-history", query_without(request, "since", "counted"))
    return show(request, "console/partials/newer.html", {"newer": Newer(count, address)})


def _resolved(request: ConsoleRequest) -> tuple[QuerySet[Alert], str, str]:
    """The alerts of the filter, and its object and rule."""
    about = request.GET.get("object", "").strip()
    rule = request.GET.get("rule", "").strip()
    resolved = Alert.objects.filter(state=AlertState.RESOLVED)
    if about:
        resolved = resolved.filter(object=object_named(about))
    if rule:
        resolved = resolved.filter(rule_name=rule)
    return resolved, about, rule


@require_safe
@page(Permission.ALERT_READ)
def alert(request: ConsoleRequest, alert_id: int) -> HttpResponse:
    """One alert: its values, who takes care of it, and who was told."""
    found = handling.find_alert(alert_id)
    standing = request.standing()
    notices = found.notices.select_related("channel", "message").order_by("-id")
    context = rights(request) | {
        "channel": "alerts",
        "position": alerts_position(standing),
        "alert": found,
        "address": address_of(found.object),
        "measures": KINDS[Kind(found.kind)].measures,
        "is_firing": found.state == AlertState.FIRING,
        "told": slice_of_query(notices, request.GET.get("told", ""), PAGE_ROWS),
        "now": standing.now,
    }
    return show(request, "console/alerts/alert.html", context, region="console/alerts/_alert.html")


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.ALERT_HANDLE)
def acknowledge(request: ConsoleRequest, alert_id: int) -> HttpResponse:
    """Say that somebody takes care of a firing alert."""
    found = handling.find_alert(alert_id)
    form = AcknowledgeForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        note = form.cleaned_data["note"].strip()
        with refusal_shown_in(form):
            kept = handling.acknowledge(actor_of(request), found.pk, note)
            if (kept.acknowledged_by, kept.acknowledgement) == (request.principal.name, note):
                return done(request, reverse("console:alert", args=[found.pk]))
            form.add_error(
                None,
                f"{kept.acknowledged_by} has acknowledged it before, and this note is not kept"
                f" beside “{kept.acknowledgement}”.",
            )
    return _dialog(
        request,
        form,
        title="Acknowledge",
        about=found,
        text="Nobody is reminded of it any more. It goes on firing until it is resolved.",
        verb="Acknowledge",
        address=reverse("console:alert-acknowledge", args=[found.pk]),
        back=reverse("console:alert", args=[found.pk]),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.ALERT_HANDLE)
def silence(request: ConsoleRequest) -> HttpResponse:
    """Tell nobody of some alerts for a while."""
    form = SilenceForm(
        request.POST or None,
        initial={
            "objects_matching": request.GET.get("object", "*"),
            "rule": request.GET.get("rule", ""),
        },
    )
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        with refusal_shown_in(form):
            handling.silence(
                actor_of(request),
                rule_id=None if given["rule"] is None else given["rule"].pk,
                objects_matching=given["objects_matching"],
                duration_ms=given["duration_ms"],
                reason=given["reason"],
            )
            return done(request, reverse("console:alert-silences"))
    return _dialog(
        request,
        form,
        title="Silence alerts",
        about=None,
        text="What matches goes on firing and is told nobody. What still fires when the silence"
        " ends is told then.",
        verb="Silence",
        address=reverse("console:alert-silence"),
        back=reverse("console:alert-silences"),
    )


@require_safe
@page(Permission.ALERT_READ)
def silences(request: ConsoleRequest) -> HttpResponse:
    """Silences that hold, and those that are over."""
    known = Silence.objects.select_related("rule")
    held = known.filter(HOLDS).order_by("until", "id")
    context = rights(request) | {
        "open": slice_of_query(held, request.GET.get("open", ""), PAGE_ROWS),
        "over": slice_of_query(known.exclude(HOLDS), request.GET.get("over", ""), PAGE_ROWS),
    }
    return show(request, "console/alerts/silences.html", context)


@require_POST
@page(Permission.ALERT_HANDLE)
def end_silence(request: ConsoleRequest, silence_id: int) -> HttpResponse:
    """End a silence now."""
    ended = handling.end_silence(actor_of(request), silence_id)
    done = f"The silence of {ended.objects_matching} is over."
    return go(request, reverse("console:alert-silences"), done)


def rights(request: ConsoleRequest) -> dict[str, Any]:
    """What the user may do about alerts."""
    return {
        "may_handle": request.principal.may(Permission.ALERT_HANDLE),
        "may_manage": request.principal.may(Permission.ALERT_MANAGE),
    }


def done(request: ConsoleRequest, address: str) -> HttpResponse:
    """Close the dialog that the request came from; without JavaScript, go to a page."""
    if "HX-Request" in request.headers:
        return HttpResponse(status=204, headers={"HX-Trigger": "alerted"})
    return go(request, address, "Done.")


def _dialog(
    request: ConsoleRequest, form: forms.Form, *, about: Alert | None, **texts: str
) -> HttpResponse:
    context = {"form": form, "about": about, **texts}
    return show(
        request,
        "console/alerts/dialog.html",
        context,
        region="console/alerts/_dialog.html",
        status=422 if form.errors else 200,
    )
