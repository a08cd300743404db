"""From which address a request comes: the one place that says so."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest
from rest_framework.request import Request


def address_of(request: HttpRequest | Request) -> str | None:
    """The sender's address as text; None when nobody knows it, as behind a Unix socket.

    Behind a proxy (``TXNCONSOLE_BEHIND_PROXY``) it is what the proxy itself added to
    ``X-Forwarded-For``, the last of the list: what stands before it anybody may have written.
    Without one that header is a stranger's word, and not looked at.
    """
    peer = request.META.get("REMOTE_ADDR", "")
    if settings.BEHIND_PROXY:
        _, _, peer = request.META.get("HTTP_X_FORWARDED_FOR", peer).rpartition(",")
    try:
        address = ipaddress.ip_address(peer.strip())
    except ValueError:
        return None
    return str(getattr(address, "ipv4_mapped", None) or address)
