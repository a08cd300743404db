"""Rules of alerts, and the channels that people are told on."""

from __future__ import annotations

from django.db.models import Count, Q
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from txnconsole.access.roles import Permission
from txnconsole.alerts import channels as stored_channels
from txnconsole.alerts import rules as stored_rules
from txnconsole.alerts.kinds import KINDS, Kind
from txnconsole.alerts.models import Channel
from txnconsole.alerts.states import ChannelKind, MessageState
from txnconsole.console.alert_forms import ChannelForm, RuleForm, refusal_shown_in
from txnconsole.console.confirmation import Confirmation, Outcome, ReasonForm, ask
from txnconsole.console.page import ConsoleRequest, actor_of, go, page, show
from txnconsole.console.shown_once import show_once, shown
from txnconsole.console.views.alerts import rights

_MESSAGES = 20


@require_safe
@page(Permission.ALERT_READ)
def rules(request: ConsoleRequest) -> HttpResponse:
    """Every rule, with how many of its alerts fire."""
    context = rights(request) | {
        "rules": [
            (rule, KINDS[Kind(rule.kind)]) for rule in stored_rules.with_firing().order_by("name")
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
            made = stored_rules.create_rule(actor_of(request), form.settings())
            return go(request, reverse("console:alert-rules"), f"{made.name} is a rule now.")
    return _form(request, "console/alerts/rule.html", form)


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.ALERT_MANAGE)
def rule(request: ConsoleRequest, rule_id: int) -> HttpResponse:
    """Change a rule."""
    found = stored_rules.find_rule(rule_id)
    form = RuleForm(Kind(found.kind), request.POST or None, rule=found)
    if request.method == "POST" and form.is_valid():
        with refusal_shown_in(form):
            changed = form.settings()
            stored_rules.change_rule(actor_of(request), found.pk, changed, seen=form.seen)
            return go(request, reverse("console:alert-rules"), f"{changed.name} is saved.")
    return _form(request, "console/alerts/rule.html", form, rule=found)


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.ALERT_MANAGE)
def delete_rule(request: ConsoleRequest, rule_id: int) -> HttpResponse:
    """Ask for a reason, and delete a rule; its alerts stay in the history."""
    name = stored_rules.find_rule(rule_id).name
    confirmation = Confirmation(
        title=f"Delete the rule {name}?",
        effects=[
            "Its alerts are resolved and stay in the history.",
            "Its silences are deleted. This cannot be undone.",
        ],
        verb="Delete rule",
        keep="Keep it",
        address=reverse("console:alert-rule-delete", args=[rule_id]),
        of=name,
        back=reverse("console:alert-rule", args=[rule_id]),
        harm=True,
    )

    def change(form: ReasonForm) -> Outcome:
        stored_rules.delete_rule(actor_of(request), rule_id, form.cleaned_data["reason"])
        return Outcome(title=f"{name} is deleted", goes_to=reverse("console:alert-rules"))

    return ask(request, confirmation, ReasonForm, change)


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
    """Make a channel, and go to its page, which shows a webhook's secret once."""
    chosen = request.GET.get("kind", "")
    if chosen not in ChannelKind.values:
        raise Http404
    form = ChannelForm(ChannelKind(chosen), request.POST or None)
    if request.method == "POST" and form.is_valid():
        with refusal_shown_in(form):
            made = stored_channels.create_channel(actor_of(request), form.settings())
            return show_once(request, _address(made.pk), _told(made))
    return _form(request, "console/alerts/channel.html", form, kind=chosen)


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.ALERT_MANAGE)
def channel(request: ConsoleRequest, channel_id: int) -> HttpResponse:
    """Change a channel, and see what was sent to it; a new secret, once."""
    found = stored_channels.find_channel(channel_id)
    form = ChannelForm(ChannelKind(found.kind), request.POST or None, channel=found)
    if request.method == "POST" and form.is_valid():
        with refusal_shown_in(form):
            changed = form.settings()
            stored_channels.change_channel(actor_of(request), found.pk, changed, seen=form.seen)
            return go(request, _address(found.pk), "The channel is saved.")
    return shown(
        request,
        lambda told: _form(
            request,
            "console/alerts/channel.html",
            form,
            told=told,
            kind=found.kind,
            alert_channel=found,
            target=stored_channels.shown_target(found),
            sent=found.messages.order_by("-id")[:_MESSAGES],
        ),
    )


@require_POST
@page(Permission.ALERT_MANAGE)
def test_channel(request: ConsoleRequest, channel_id: int) -> HttpResponse:
    """Send a test."""
    stored_channels.send_test(actor_of(request), channel_id)
    return go(request, _address(channel_id), "A test is to be sent; its message says how it went.")


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.ALERT_MANAGE)
def renew_secret(request: ConsoleRequest, channel_id: int) -> HttpResponse:
    """Ask for a reason, and give a webhook another secret."""
    found = stored_channels.find_channel(channel_id)
    confirmation = _confirmation(
        found,
        "secret",
        title=f"Renew the secret of {found.name}?",
        effects=[
            "Messages are signed with it at once: their receiver refuses them until it knows it.",
            "It is shown once.",
        ],
        verb="Renew secret",
    )

    def change(form: ReasonForm) -> Outcome:
        reason = form.cleaned_data["reason"]
        renewed = stored_channels.renew_secret(actor_of(request), channel_id, reason)
        told = _told(renewed)
        return Outcome(title=told["title"], goes_to=_address(channel_id), told=told)

    return ask(request, confirmation, ReasonForm, change)


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.ALERT_MANAGE)
def delete_channel(request: ConsoleRequest, channel_id: int) -> HttpResponse:
    """Ask for a reason, and delete a channel."""
    found = stored_channels.find_channel(channel_id)
    confirmation = _confirmation(
        found,
        "delete",
        title=f"Delete the channel {found.name}?",
        effects=["Messages that wait are not sent. This cannot be undone."],
        verb="Delete channel",
    )

    def change(form: ReasonForm) -> Outcome:
        stored_channels.delete_channel(actor_of(request), channel_id, form.cleaned_data["reason"])
        return Outcome(title=f"{found.name} is deleted", goes_to=reverse("console:alert-channels"))

    return ask(request, confirmation, ReasonForm, change)


@require_POST
@page(Permission.ALERT_MANAGE)
def resend(request: ConsoleRequest, channel_id: int, message_id: int) -> HttpResponse:
    """Send a message again that was given up."""
    stored_channels.resend(actor_of(request), channel_id, message_id)
    return go(request, _address(channel_id), "The message is to be sent again.")


def _confirmation(
    found: Channel, what: str, *, title: str, effects: list[str], verb: str
) -> Confirmation:
    return Confirmation(
        title=title,
        effects=effects,
        verb=verb,
        keep="Keep it",
        address=reverse(f"console:alert-channel-{what}", args=[found.pk]),
        of=found.name,
        back=_address(found.pk),
        harm=True,
    )


def _told(made: Channel) -> dict[str, str]:
    """What is shown once of a channel; nothing of one without a secret."""
    return {"title": f"Secret of {made.name}", "secret": made.secret} if made.secret else {}


def _address(channel_id: int) -> str:
    return reverse("console:alert-channel", args=[channel_id])


def _form(
    request: ConsoleRequest, template: str, form: RuleForm | ChannelForm, **context: object
) -> HttpResponse:
    found = rights(request) | context | {"form": form}
    return show(request, template, found, status=422 if form.errors else 200)
