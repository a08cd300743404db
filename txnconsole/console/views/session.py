"""Signing in and out."""

from __future__ import annotations

from datetime import timedelta
from math import ceil
from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse

from txnconsole.access import sign_ins
from txnconsole.access.addresses import sender_of
from txnconsole.quantities import counted


class SignInForm(AuthenticationForm):
    """Limits attempts as :mod:`txnconsole.access.sign_ins` says."""

    request: HttpRequest
    #: How long to wait after too many attempts; None: this one may be made.
    wait: timedelta | None = None

    def clean(self) -> dict[str, Any]:
        name, sender = self.cleaned_data.get("username"), sender_of(self.request)
        if not name or "password" not in self.cleaned_data:
            return self.cleaned_data
        self.wait = sign_ins.begin(name, sender)
        if self.wait is not None:
            minutes = ceil(self.wait / timedelta(minutes=1))
            raise ValidationError(f"Too many attempts. Try again in {counted(minutes, 'minute')}.")
        cleaned = super().clean()
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
