"""The forms of alerts. Whether values make sense is checked by ``txnconsole.alerts`` itself."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from django import forms

from engine.model.errors import EngineError
from txnconsole.alerts.channels import ChannelSettings
from txnconsole.alerts.errors import AlertSettingsChanged
from txnconsole.alerts.kinds import KINDS, SEVERITIES, Kind, Severity, Unit
from txnconsole.alerts.models import Channel, Rule
from txnconsole.alerts.rules import MAX_SPAN_MS, RuleSettings
from txnconsole.alerts.states import ChannelKind
from txnconsole.alerts.versions import version_of
from txnconsole.console.confirmation import KEPT, MIN_REASON, TOO_SHORT, tell_refusal
from txnconsole.console.inputs import FIELD, TEXT

_HOUR_MS = 3_600_000
_SPANS = [
    (str(_HOUR_MS), "1 hour"),
    (str(4 * _HOUR_MS), "4 hours"),
    (str(24 * _HOUR_MS), "1 day"),
    (str(7 * 24 * _HOUR_MS), "7 days"),
]
_MEASURE = FIELD | {"step": "any", "min": "0"}
_UNITS = {
    Unit.MILLISECONDS: "seconds",
    Unit.PERCENT: "percent",
    Unit.PER_MINUTE: "a minute",
    Unit.COUNT: "a count",
}


def _span(label: str, *, initial: int, unit_ms: int = 1000) -> forms.FloatField:
    """Bounded here already: in milliseconds the largest numbers are none any more."""
    return forms.FloatField(
        label=label,
        min_value=0,
        max_value=MAX_SPAN_MS / unit_ms,
        initial=initial,
        error_messages={"max_value": "It must be from 0 to seven days."},
        widget=forms.NumberInput(attrs=_MEASURE),
    )


class AcknowledgeForm(forms.Form):
    note = forms.CharField(
        label="Note",
        max_length=1000,
        required=False,
        widget=forms.Textarea(
            attrs=FIELD | {"rows": 3, "placeholder": "What is being done; shown beside the alert"}
        ),
    )


class _RuleField(forms.ModelChoiceField):  # type: ignore[type-arg]
    """A choice of rules by their names."""

    def label_from_instance(self, obj: Any) -> str:
        return str(obj.name)


class SilenceForm(forms.Form):
    """A silence: of which rule and objects, and for how long."""

    objects_matching = forms.CharField(
        label="Objects",
        max_length=1000,
        help_text="A pattern with * and ?, such as partition:public/default/*",
        widget=forms.TextInput(attrs=TEXT),
    )
    rule = _RuleField(
        label="Rule",
        queryset=Rule.objects.order_by("name"),
        required=False,
        empty_label="Any rule",
        widget=forms.Select(attrs=FIELD),
    )
    duration_ms = forms.TypedChoiceField(
        label="For", choices=_SPANS, coerce=int, widget=forms.Select(attrs=FIELD)
    )
    reason = forms.CharField(
        label="Reason",
        min_length=MIN_REASON,
        max_length=1000,
        error_messages={"required": TOO_SHORT, "min_length": TOO_SHORT},
        widget=forms.Textarea(attrs=FIELD | {"rows": 3, "placeholder": KEPT}),
    )


class SettingsForm(forms.Form):
    """A form that changes a rule or channel, or makes one. ``seen`` is the version that its reader
    has seen (None of a new one); the page sends it along."""

    def __init__(self, *arguments: Any, stored: Rule | Channel | None, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._stored = None if stored is None else version_of(stored)
        self.seen = self._stored and (self.data.get("seen") or self._stored)

    def show_changes(self) -> None:
        """Say beside each field that differs what is stored, and take that for seen."""
        self.seen = self._stored
        for name in self.changed_data:
            if name in self.initial:
                self.add_error(name, f"It is {self._in_words(name)} now.")
        self.add_error(None, "Save once more to have it as it stands here.")

    def _in_words(self, name: str) -> str:
        field, value = self.fields[name], self.initial[name]
        if isinstance(field, forms.BooleanField):
            return "on" if value else "off"
        if isinstance(field, forms.ChoiceField):
            return str(value).capitalize()
        return ", ".join(str(value).split("\n"))


class RuleForm(SettingsForm):
    """A rule, whose kind was chosen before; spans are in seconds, reminders in hours."""

    name = forms.CharField(max_length=120, widget=forms.TextInput(attrs=FIELD))
    topics = forms.CharField(
        max_length=400,
        initial="*",
        help_text="A pattern with * and ?, such as public/default/*",
        widget=forms.TextInput(attrs=TEXT),
    )
    threshold = forms.FloatField(min_value=0, widget=forms.NumberInput(attrs=_MEASURE))
    hold = _span("Fires when above it for (seconds)", initial=0)
    clear = _span("Resolved when not above it for (seconds)", initial=15)
    remind = _span("Remind every (hours; 0: never)", initial=4, unit_ms=_HOUR_MS)
    severity = forms.ChoiceField(choices=SEVERITIES, widget=forms.Select(attrs=FIELD))
    enabled = forms.BooleanField(required=False, initial=True, label="Evaluate this rule")

    def __init__(self, kind: Kind, *arguments: Any, rule: Rule | None = None, **more: Any) -> None:
        self.kind = kind
        self.terms = KINDS[kind]
        more.setdefault("initial", _rule_initial(kind, rule))
        super().__init__(*arguments, stored=rule, **more)
        self.fields["threshold"].label = f"Threshold ({_UNITS[self.terms.unit]})"
        if not self.terms.by_topic:
            del self.fields["topics"]

    def settings(self) -> RuleSettings:
        """What a valid form asks for."""
        given = self.cleaned_data
        return RuleSettings(
            name=given["name"],
            kind=self.kind,
            topics=given.get("topics", "*"),
            threshold=given["threshold"] * _scale(self.kind),
            for_ms=round(given["hold"] * 1000),
            clear_ms=round(given["clear"] * 1000),
            remind_ms=round(given["remind"] * _HOUR_MS),
            severity=Severity(given["severity"]),
            enabled=given["enabled"],
        )


def _rule_initial(kind: Kind, rule: Rule | None) -> dict[str, Any]:
    if rule is None:
        terms = KINDS[kind]
        return {
            "threshold": _plain(terms.threshold / _scale(kind)),
            "hold": _plain(terms.for_ms / 1000),
            "severity": terms.severity.value,
        }
    return {
        "name": rule.name,
        "topics": rule.topics,
        "threshold": _plain(rule.threshold / _scale(kind)),
        "hold": _plain(rule.for_ms / 1000),
        "clear": _plain(rule.clear_ms / 1000),
        "remind": _plain(rule.remind_ms / _HOUR_MS),
        "severity": rule.severity,
        "enabled": rule.enabled,
    }


def _scale(kind: Kind) -> float:
    return 1000 if KINDS[kind].unit is Unit.MILLISECONDS else 1


def _plain(number: float) -> float | int:
    return int(number) if number == int(number) else number


class _LinesField(forms.CharField):
    """Words one a line, however they were sent."""

    def to_python(self, value: Any) -> str:
        return "\n".join(str(super().to_python(value)).split())


class ChannelForm(SettingsForm):
    """An e-mail channel or a webhook; an existing webhook keeps its URL when none is given."""

    name = forms.CharField(max_length=120, widget=forms.TextInput(attrs=FIELD))
    recipients = _LinesField(
        label="Recipients, one a line",
        widget=forms.Textarea(attrs=FIELD | {"rows": 4, "spellcheck": "false"}),
    )
    url = forms.CharField(
        label="Address",
        max_length=2000,
        widget=forms.TextInput(attrs=TEXT | {"type": "url", "placeholder": "https://"}),
    )
    min_severity = forms.ChoiceField(
        label="Takes alerts from this severity on",
        choices=SEVERITIES,
        widget=forms.Select(attrs=FIELD),
    )
    enabled = forms.BooleanField(required=False, initial=True, label="Send messages here")

    def __init__(
        self, kind: ChannelKind, *arguments: Any, channel: Channel | None = None, **more: Any
    ) -> None:
        self.kind = kind
        if channel is not None:
            more.setdefault(
                "initial",
                {
                    "name": channel.name,
                    "recipients": "\n".join(channel.recipients),
                    "min_severity": channel.min_severity,
                    "enabled": channel.enabled,
                },
            )
        super().__init__(*arguments, stored=channel, **more)
        del self.fields["url" if kind is ChannelKind.EMAIL else "recipients"]
        if channel is not None and kind is ChannelKind.WEBHOOK:
            self.fields["url"].required = False
            self.fields["url"].help_text = "Leave it empty to keep the address that it has."

    def settings(self) -> ChannelSettings:
        """What a valid form asks for."""
        given = self.cleaned_data
        return ChannelSettings(
            name=given["name"],
            kind=self.kind,
            recipients=tuple(given.get("recipients", "").split()),
            url=given.get("url") or None,
            min_severity=Severity(given["min_severity"]),
            enabled=given["enabled"],
        )


#: The form's names of fields that have another name in rules.
_NAMES = {"for_ms": "hold", "clear_ms": "clear", "remind_ms": "remind"}


@contextmanager
def refusal_shown_in(form: forms.Form) -> Generator[None]:
    """Show why something was refused within the block, beside the fields that it is about."""
    try:
        yield
    except EngineError as error:
        tell_refusal(form, error, names=_NAMES, sentence="It {}.")
        if isinstance(form, SettingsForm) and isinstance(error, AlertSettingsChanged):
            form.show_changes()
