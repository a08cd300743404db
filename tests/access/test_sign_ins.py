"""How attempts to sign in are counted; what comes of it: tests/console/views/test_session.py."""

from __future__ import annotations

import pytest
from django.db.models import F

from tests.support.databases import Databases
from txnconsole.access import sign_ins
from txnconsole.access.models import SignInAttempts


@pytest.mark.django_db(transaction=True)
def test_who_signs_in_waits_for_nobody_whose_window_is_over(databases: Databases) -> None:
    """Of two whose windows are over each would forget the other's, and wait for it for ever."""
    for name, sender in (("ann", "192.0.2.7"), ("bob", "192.0.2.8")):
        assert sign_ins.begin(name, sender) is None
    SignInAttempts.objects.update(since=F("since") - sign_ins.WINDOW)
    held = sign_ins._key("192.0.2.7")
    with databases.locked("access_signinattempts WHERE key = %s", held):
        assert sign_ins.begin("eve", "192.0.2.9") is None
    assert SignInAttempts.objects.count() == 3, "the locked one, and the two of this attempt"
    assert SignInAttempts.objects.filter(key=held).exists()
