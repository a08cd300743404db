"""The forms of the settings: preferences, tokens, users."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django import forms
from django.http import QueryDict

from txnconsole.access.masking import Effect, Part
from txnconsole.access.roles import Role
from txnconsole.access.users import USER_NAME
from txnconsole.console.confirmation import ReasonForm
from txnconsole.console.inputs import FIELD, TEXT
from txnconsole.preferences.models import Density, Pace, Theme, zones

_MAX_TOPICS, _MAX_PATTERN = 64, 400
_ROLES = [(str(role), str(role)) for role in Role]
#: How many days a token is valid, for each choice of the field.
LIFETIMES = (
    ("7", "7 days"),
    ("30", "30 days"),
    ("90", "90 days"),
    ("365", "a year"),
    ("", "for ever"),
)


class PreferencesForm(forms.Form):
    """How the user wants the console to look."""

    zone = forms.CharField(
        max_length=64, label="Time zone", widget=forms.TextInput(attrs=TEXT | {"list": "zones"})
    )
    theme = forms.ChoiceField(choices=Theme, widget=forms.RadioSelect)
    density = forms.ChoiceField(choices=Density, widget=forms.RadioSelect)
    pace = forms.TypedChoiceField(choices=Pace, coerce=int, widget=forms.RadioSelect)

    def clean_zone(self) -> str:
        """Accept names of the IANA time zone database."""
        name: str = self.cleaned_data["zone"].strip()
        if name not in zones():
            raise forms.ValidationError("Write a zone's name as Europe/Berlin, or UTC.")
        return name


class TokenForm(forms.Form):
    """A new token; ``grantable`` are the roles that may be given."""

    topics = forms.CharField(
        initial="*",
        max_length=4000,
        label="Topics",
        widget=forms.TextInput(attrs=TEXT),
        help_text="Patterns over tenant/namespace/topic with * ? and […], separated by commas.",
    )
    days = forms.ChoiceField(
        choices=LIFETIMES,
        initial="90",
        required=False,
        label="Valid for",
        widget=forms.Select(attrs=FIELD),
    )
    user = forms.CharField(
        required=False,
        max_length=150,
        label="Owner",
        widget=forms.TextInput(attrs=TEXT),
        help_text="The user whose programs use it; empty is yourself.",
    )

    def __init__(self, *args: Any, grantable: list[Role], for_others: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["roles"] = forms.MultipleChoiceField(
            choices=[(str(role), str(role)) for role in grantable],
            widget=forms.CheckboxSelectMultiple,
            error_messages={"required": "Choose a role at least."},
        )
        if not for_others:
            del self.fields["user"]

    def clean_topics(self) -> list[str]:
        """Split the patterns."""
        text: str = self.cleaned_data["topics"]
        patterns = [pattern for part in text.split(",") if (pattern := part.strip())]
        if not patterns:
            raise forms.ValidationError("Write a pattern at least; * is every topic.")
        if len(patterns) > _MAX_TOPICS or any(len(one) > _MAX_PATTERN for one in patterns):
            raise forms.ValidationError(
                f"At most {_MAX_TOPICS} patterns of {_MAX_PATTERN} characters."
            )
        return patterns

    @property
    def lifetime(self) -> timedelta | None:
        days: str = self.cleaned_data["days"]
        return timedelta(days=int(days)) if days else None


class NewUserForm(forms.Form):
    """A new user's name and roles; for a person a password is made."""

    name = forms.RegexField(
        USER_NAME,
        widget=forms.TextInput(attrs=TEXT | {"autocapitalize": "none"}),
        error_messages={"invalid": "1 to 150 letters, digits and any of @ . + - _."},
    )
    roles = forms.MultipleChoiceField(
        required=False,
        choices=_ROLES,
        widget=forms.CheckboxSelectMultiple,
    )
    person = forms.BooleanField(
        required=False, initial=True, label="Signs in to the console (gets a password)"
    )


class RolesForm(ReasonForm):
    """The roles that a user is to have; ``before``: those that it had when the form was shown."""

    before = forms.MultipleChoiceField(
        required=False,
        choices=_ROLES,
        widget=forms.MultipleHiddenInput,
    )
    roles = forms.MultipleChoiceField(
        required=False,
        choices=_ROLES,
        widget=forms.CheckboxSelectMultiple(attrs={"class": "choices"}),
    )
    revoke_tokens = forms.BooleanField(
        required=False, label="Revoke its tokens that permit more than these roles"
    )

    def take_for_seen(self, roles: Iterable[Role]) -> None:
        """Sent once more, the form replaces these roles, of which it tells."""
        data = QueryDict(mutable=True)
        data.update(self.data)
        data.setlist("before", sorted(roles))
        self.data = data


class MaskingForm(forms.Form):
    """What viewers must not see of the messages of some topics."""

    topics = forms.CharField(
        max_length=_MAX_PATTERN,
        label="Topics",
        widget=forms.TextInput(attrs=TEXT | {"placeholder": "public/default/*"}),
        help_text="A pattern over tenant/namespace/topic with * ? and […].",
    )
    part = forms.ChoiceField(
        choices=[
            (Part.FIELD, "a field of a JSON payload"),
            (Part.PAYLOAD, "the payload"),
            (Part.KEY, "the key"),
            (Part.PROPERTY, "a property"),
        ],
        label="What",
        widget=forms.Select(attrs=FIELD),
    )
    name = forms.CharField(
        required=False,
        max_length=200,
        label="Which field or property",
        widget=forms.TextInput(attrs=TEXT | {"placeholder": "card.number, items.*.iban, **.iban"}),
        help_text="* in a name is anything, ** any number of levels; lists are gone through.",
    )
    effect = forms.ChoiceField(
        choices=[
            (Effect.REPLACE, "*** instead of it"),
            (Effect.TAIL, "all but its last four characters hidden"),
            (Effect.REMOVE, "nothing: it is left out"),
        ],
        label="What is shown",
        widget=forms.Select(attrs=FIELD),
    )
