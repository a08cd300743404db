"""Rules of alerts, and the channels that people are told on."""

from __future__ import annotations

from django.db.models import Count, Q
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from txnconsole.access.roles import Permission
from txnconsole.alerts import channels as stored_channels
from txnconsole.alerts import rules as stored_rules
from txnconsole.alerts.kinds import KINDS, Kind
from txnconsole.alerts.models import Channel, Rule
from txnconsole.alerts.states import AlertState, ChannelKind, MessageState
from txnconsole.console.alert_forms import ChannelForm, RuleForm, refusal_shown_in
from txnconsole.console.page import ConsoleRequest, actor_of, page, show
from txnconsole.console.views.alerts import rights

_MESSAGES = 20


@require_safe
@page(Permission.ALERT_READ)
def rules(request: ConsoleRequest) -> HttpResponse:
    """Every rule, with how many of its alerts fire."""
    firing = Count("alerts", filter=Q(alerts__state=AlertState.FIRING))
    context = rights(request) | {
        "rules": [
            (rule, KINDS[Kind(rule.kind)])
            for rule in Rule.objects.annotate(firing=firing).order_by("name")
        ],
    }
    return show(request, "console/alerts/rules.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.ALERT_MANAGE)
def new_rule(request: ConsoleRequest) -> HttpResponse:
    """Choose what to measure, then the rule's settings."""
    chosen = request.GET.get("kind", "")
    if chosen not in KINDS:
        kinds = [(kind.value, terms) for kind, terms in KINDS.items()]
        return show(request, "console/alerts/kinds.html", {"kinds": kinds})
    form = RuleForm(Kind(chosen), request.POST or None)
    if request.method == "POST" and form.is_valid():
        with refusal_shown_in(form):
            stored_rules.create_rule(actor_of(request), form.settings())
            return HttpResponseRedirect(reverse("console:alert-rules"))
    return _form(request, "console/alerts/rule.html", form)


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.ALERT_MANAGE)
def rule(request: ConsoleRequest, rule_id: int) -> HttpResponse:
    """Change a rule."""
    found = stored_rules.find_rule(rule_id)
    form = RuleForm(Kind(found.kind), request.POST or None, rule=found)
    if request.method == "POST" and form.is_valid():
        with refusal_shown_in(form):
            stored_rules.change_rule(actor_of(request), found.pk, form.settings(), seen=form.seen)
            return HttpResponseRedirect(reverse("console:alert-rules"))
    return _form(request, "console/alerts/rule.html", form, rule=found)


@require_POST
@page(Permission.ALERT_MANAGE)
def delete_rule(request: ConsoleRequest, rule_id: int) -> HttpResponse:
    """Delete a rule; its alerts stay in the history."""
    stored_rules.delete_rule(actor_of(request), rule_id)
    return HttpResponseRedirect(reverse("console:alert-rules"))


@require_safe
@page(Permission.ALERT_MANAGE)
def channels(request: ConsoleRequest) -> HttpResponse:
    """The channels, and whether messages arrive there."""
    counted = Channel.objects.annotate(
        waiting=Count("messages", filter=Q(messages__state=MessageState.QUEUED)),
        dead=Count("messages", filter=Q(messages__state=MessageState.DEAD)),
    ).order_by("name")
    context = rights(request) | {
        "channels": [(one, stored_channels.shown_target(one)) for one in counted],
    }
    return show(request, "console/alerts/channels.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.ALERT_MANAGE)
def new_channel(request: ConsoleRequest) -> HttpResponse:
    """Make a channel. A webhook's secret is shown in this answer only."""
    chosen = request.GET.get("kind", "")
    if chosen not in ChannelKind.values:
        raise Http404
    form = ChannelForm(ChannelKind(chosen), request.POST or None)
    if request.method == "POST" and form.is_valid():
        with refusal_shown_in(form):
            made = stored_channels.create_channel(actor_of(request), form.settings())
            if made.secret:
                return _secret(request, made)
            return HttpResponseRedirect(reverse("console:alert-channel", args=[made.pk]))
    return _form(request, "console/alerts/channel.html", form, kind=chosen)


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.ALERT_MANAGE)
def channel(request: ConsoleRequest, channel_id: int) -> HttpResponse:
    """Change a channel, and see what was sent to it."""
    found = stored_channels.find_channel(channel_id)
    form = ChannelForm(ChannelKind(found.kind), request.POST or None, channel=found)
    if request.method == "POST" and form.is_valid():
        with refusal_shown_in(form):
            changed = form.settings()
            stored_channels.change_channel(actor_of(request), found.pk, changed, seen=form.seen)
            return HttpResponseRedirect(reverse("console:alert-channel", args=[found.pk]))
    return _form(
        request,
        "console/alerts/channel.html",
        form,
        kind=found.kind,
        alert_channel=found,
        target=stored_channels.shown_target(found),
        sent=found.messages.order_by("-id")[:_MESSAGES],
    )


@require_POST
@page(Permission.ALERT_MANAGE)
def change_channel(request: ConsoleRequest, channel_id: int, action: str) -> HttpResponse:
    """Test a channel, renew its secret, or delete it."""
    address = reverse("console:alert-channel", args=[channel_id])
    match action:
        case "test":
            stored_channels.send_test(actor_of(request), channel_id)
        case "secret":
            return _secret(request, stored_channels.renew_secret(actor_of(request), channel_id))
        case "delete":
            stored_channels.delete_channel(actor_of(request), channel_id)
            address = reverse("console:alert-channels")
        case _:
            raise Http404
    return HttpResponseRedirect(address)


@require_POST
@page(Permission.ALERT_MANAGE)
def resend(request: ConsoleRequest, channel_id: int, message_id: int) -> HttpResponse:
    """Send a message again that was given up."""
    stored_channels.resend(actor_of(request), channel_id, message_id)
    return HttpResponseRedirect(reverse("console:alert-channel", args=[channel_id]))


def _secret(request: ConsoleRequest, made: Channel) -> HttpResponse:
    """The page that shows a secret, which cannot be shown again."""
    response = show(request, "console/alerts/secret.html", {"alert_channel": made})
    response["Cache-Control"] = "no-store"
    return response


def _form(
    request: ConsoleRequest, template: str, form: RuleForm | ChannelForm, **context: object
) -> HttpResponse:
    found = rights(request) | context | {"form": form}
    return show(request, template, found, status=422 if form.errors else 200)
