"""From which address a request comes."""

from __future__ import annotations

import pytest
from django.test import RequestFactory, override_settings

from txnconsole.access.addresses import address_of, sender_of


@pytest.mark.parametrize(
    ("behind_proxy", "peer", "forwarded", "address"),
    [
        (False, "203.0.113.7", None, "203.0.113.7"),
        (False, "2001:DB8:0::7", None, "2001:db8::7"),
        (False, "::ffff:203.0.113.7", None, "203.0.113.7"),
        (False, "", None, None),
        (False, "203.0.113.7", "198.51.100.1", "203.0.113.7"),
        (True, "10.0.0.1", "198.51.100.1", "198.51.100.1"),
        (True, "10.0.0.1", "127.0.0.1, 198.51.100.1", "198.51.100.1"),
        (True, "", "198.51.100.1,2001:db8::7", "2001:db8::7"),
        (True, "10.0.0.1", None, "10.0.0.1"),
        (True, "10.0.0.1", "unknown", None),
        (True, "10.0.0.1", "<script>", None),
        (True, "10.0.0.1", "", None),
    ],
)
def test_only_what_the_peer_or_the_trusted_proxy_says_is_believed(
    behind_proxy: bool, peer: str, forwarded: str | None, address: str | None
) -> None:
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    request = RequestFactory().get("/", headers=headers, REMOTE_ADDR=peer)
    with override_settings(BEHIND_PROXY=behind_proxy):
        assert address_of(request) == address


@pytest.mark.parametrize(
    ("peer", "sender"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:0:1:2:3:4:5", "2001:db8:0:1::/64"),
        ("2001:db8:0:1::7", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_one_sender_has_all_addresses_of_its_network(peer: str, sender: str) -> None:
    assert sender_of(RequestFactory().get("/", REMOTE_ADDR=peer)) == sender
