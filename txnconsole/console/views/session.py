"""Signing in and out."""

from __future__ import annotations

from datetime import timedelta
from math import ceil
from threading import BoundedSemaphore
from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse

from txnconsole.access import sign_ins
from txnconsole.access.addresses import sender_of
from txnconsole.enginedb.letting_go import let_go
from txnconsole.quantities import counted
from txnconsole.wsgi_on_threads import resting

#: How many passwords a process checks at a time. Each takes a processor for a third of a second,
#: 16 MiB, and for as long one of the few connections by which programs' tokens are looked up.
CHECKED_AT_A_TIME = 4
#: For how long an attempt waits for its turn.
PATIENCE = timedelta(seconds=5)

_turns = BoundedSemaphore(CHECKED_AT_A_TIME)


class SignInForm(AuthenticationForm):
    """Limits attempts as :mod:`txnconsole.access.sign_ins` says, and those that are looked at
    together: anybody may make some."""

    request: HttpRequest
    #: How long to wait before another attempt; None: this one may be made.
    wait: timedelta | None = None

    def clean(self) -> dict[str, Any]:
        name, sender = self.cleaned_data.get("username"), sender_of(self.request)
        if not name or "password" not in self.cleaned_data:
            return self.cleaned_data
        # Counted first: of one sender only so many wait.
        self.wait = sign_ins.begin(name, sender)
        if self.wait is not None:
            minutes = ceil(self.wait / timedelta(minutes=1))
            raise ValidationError(f"Too many attempts. Try again in {counted(minutes, 'minute')}.")
        let_go()
        with resting():
            is_its_turn = _turns.acquire(timeout=PATIENCE.total_seconds())
        if not is_its_turn:
            self.wait = PATIENCE
            raise ValidationError("Many are signing in at this moment. Try again in some seconds.")
        try:
            cleaned = super().clean()
        finally:
            _turns.release()
        sign_ins.succeeded(name, sender)
        return cleaned


class Login(LoginView):
    """The login page; a user who is signed in already goes on to where they wanted."""

    form_class = SignInForm
    template_name = "console/login.html"
    redirect_authenticated_user = True
    next_page = "console:overview"

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        answer = super().form_invalid(form)
        wait = form.wait if isinstance(form, SignInForm) else None
        if wait is not None:
            answer.status_code = 429
            answer["Retry-After"] = str(ceil(wait.total_seconds()))
        return answer


class Logout(LogoutView):
    """Ends the session (by POST only) and shows the login page."""

    next_page = "console:login"
