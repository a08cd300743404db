"""The address from which a request comes; nothing else decides that."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest
from rest_framework.request import Request

_NETWORK_BITS = 64


def address_of(request: HttpRequest | Request) -> str | None:
    """The sender's address as text; None when it is unknown, as behind a Unix socket.

    Behind a proxy (``TXNCONSOLE_BEHIND_PROXY``) it is the last address in ``X-Forwarded-For``,
    which the proxy itself has added; anybody may have written those before it. Without a proxy that
    header is ignored, because anybody may have written all of it.
    """
    peer = request.META.get("REMOTE_ADDR", "")
    if settings.BEHIND_PROXY:
        _, _, peer = request.META.get("HTTP_X_FORWARDED_FOR", peer).rpartition(",")
    try:
        address = ipaddress.ip_address(peer.strip())
    except ValueError:
        return None
    return str(getattr(address, "ipv4_mapped", None) or address)


def sender_of(request: HttpRequest | Request) -> str:
    """What is counted as one sender: its address or, of IPv6, the network of it, because a single
    machine usually has all addresses of a /64; "" when it is unknown."""
    address = address_of(request) or ""
    if ":" not in address:
        return address
    host = ipaddress.IPv6Address(address.partition("%")[0])
    return str(ipaddress.IPv6Network((host, _NETWORK_BITS), strict=False))
