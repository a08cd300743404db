"""Where a webhook may go: HTTP or HTTPS, to an address of the public internet.

This keeps whoever may set a webhook from reaching servers inside the network (server-side request
forgery). A name is looked up once, and the connection goes to an address that was checked, so a
name that resolves to something else a moment later (DNS rebinding) gains nothing. Private,
loopback, link-local and other special addresses are allowed only where
``TXNCONSOLE_ALERTS_PRIVATE_ADDRESSES`` says so.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from txnconsole.alerts.errors import invalid

MAX_URL = 2000
_PORTS = {"http": 80, "https": 443}
#: All IPv6 addresses of the public internet are in here.
_UNICAST = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

#: Resolves a host and port to addresses.
Lookup = Callable[[str, int], Sequence[str]]


class Refused(Exception):
    """A webhook may not go there; the text says why, without the URL's path (it may be secret)."""


@dataclass(frozen=True, slots=True)
class Target:
    """A webhook's URL, taken apart. ``path`` includes the query; it may be a secret."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> Target:
        """Take a URL apart.

        Raises:
            InvalidRequest: a webhook cannot have this URL.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise invalid("url", "is no URL") from error
        if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
            raise invalid("url", f"must be printable ASCII of at most {MAX_URL} characters")
        if parts.scheme not in _PORTS:
            raise invalid("url", "must begin with https:// or http://")
        if not parts.hostname:
            raise invalid("url", "names no host")
        if parts.username is not None or parts.password is not None:
            raise invalid("url", "must not carry a user name or password")
        if parts.fragment:
            raise invalid("url", "must not have a fragment")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path)

    @property
    def authority(self) -> str:
        """Host and port as the ``Host`` header writes them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The URL without its path, which for many webhooks is the password."""
        return f"{self.scheme}://{self.authority}/…"

    def at(self, address: str) -> str:
        """The URL with one address of the host in the host's place."""
        host = f"[{address}]" if ":" in address else address
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def lookup(host: str, port: int) -> Sequence[str]:
    """Resolve a host with the system's resolver; each address once."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def checked_addresses(target: Target, *, private: bool, look_up: Lookup = lookup) -> Sequence[str]:
    """The addresses of the target's host, in the order in which to try them.

    Raises:
        Refused: the name is unknown, or one of its addresses is not public and ``private`` is
            not set.
    """
    try:
        addresses = look_up(target.host, target.port)
    except (OSError, UnicodeError) as error:  # UnicodeError: not a possible name.
        raise Refused(f"The host {target.host} cannot be found.") from error
    if not addresses:
        raise Refused(f"The host {target.host} has no address.")
    if not private and not all(map(_is_public, addresses)):
        raise Refused(
            f"The host {target.host} has a private address; set"
            " TXNCONSOLE_ALERTS_PRIVATE_ADDRESSES=1 to allow such."
        )
    return addresses


def _is_public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is not None:
            return _is_public(str(inner))
        if address in _NAT64:
            return _is_public(str(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)))
        if address not in _UNICAST:  # Such as fec0::/10, which Python calls global.
            return False
    return address.is_global and not address.is_multicast
