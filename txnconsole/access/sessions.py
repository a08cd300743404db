"""Ending sessions of people (Django keeps them in its tables); forgetting those that are over."""

from __future__ import annotations

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db.models.functions import Now


def end_sessions(user: User) -> None:
    """End all sessions of a user, for good. Only its sealed content tells whose a session is, so
    all that are not over are looked at."""
    held = Session.objects.filter(expire_date__gt=Now()).iterator()
    own = [one.pk for one in held if one.get_decoded().get(SESSION_KEY) == str(user.pk)]
    Session.objects.filter(pk__in=own).delete()


def drop_expired() -> int:
    """Remove the sessions whose time is over; returns how many."""
    removed, _ = Session.objects.filter(expire_date__lte=Now()).delete()
    return removed
