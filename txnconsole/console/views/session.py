"""Signing in and out."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView


class Login(LoginView):
    """The login page; who is signed in already goes on to where they wanted."""

    template_name = "console/login.html"
    redirect_authenticated_user = True
    next_page = "console:overview"


class Logout(LogoutView):
    """Ends the session (by POST only) and shows the login page."""

    next_page = "console:login"
