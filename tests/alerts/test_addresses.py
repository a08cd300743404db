"""Where webhooks may go."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from engine.model.errors import InvalidRequest
from txnconsole.alerts.addresses import Refused, Target, checked_addresses

PUBLIC = "93.184.216.34"


def answering(*addresses: str) -> Callable[[str, int], Sequence[str]]:
    return lambda _host, _port: addresses


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/x",
        "file:///etc/passwd",
        "https://",
        "https://user:pass@example.com/",
        "https://example.com/#part",
        "https://example.com:99999/",
        "https://exa mple.com/",
        "https://example.com/\n",
        "https://example.com/\N{SNOWMAN}",
        "https://[::1/",
        "gopher://example.com",
        "example.com/hook",
        "https://example.com/" + "x" * 2000,
    ],
)
def test_an_address_that_no_webhook_can_have_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        Target.parse(url)
    assert raised.value.data["errors"][0]["field"] == "url"  # type: ignore[index]


def test_of_an_address_only_the_host_is_shown() -> None:
    target = Target.parse("https://hooks.example.com/services/SECRET?key=ALSO")
    assert target.shown == "https://hooks.example.com/…"
    assert (target.port, target.path) == (443, "/services/SECRET?key=ALSO")
    assert target.at(PUBLIC) == f"https://{PUBLIC}:443/services/SECRET?key=ALSO"
    other = Target.parse("http://[2001:db8::1]:8080")
    assert (other.authority, other.path) == ("[2001:db8::1]:8080", "/")
    assert other.at("2606:4700::1111") == "http://[2606:4700::1111]:8080/"


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0"),  # noqa: S104
        *("100.64.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1"),
        *("::1", "::", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "2002:7f00:1::"),
        *("64:ff9b::7f00:1", "2001:db8::1", "64:ff9b:1::7f00:1", "fec0::1", "::127.0.0.1"),
        "::ffff:0:127.0.0.1",
    ],
)
def test_a_private_address_is_refused_however_it_is_written(address: str) -> None:
    target = Target.parse("https://example.com/")
    with pytest.raises(Refused, match="private address"):
        checked_addresses(target, private=False, look_up=answering(address))
    # One bad address among good ones is enough: nobody chooses among them but the name's owner.
    with pytest.raises(Refused):
        checked_addresses(target, private=False, look_up=answering(PUBLIC, address))
    assert checked_addresses(target, private=True, look_up=answering(address)) == (address,)


@pytest.mark.parametrize("address", [PUBLIC, "2606:4700:4700::1111", "64:ff9b::5db8:d822"])
def test_a_public_address_is_taken(address: str) -> None:
    target = Target.parse("https://example.com/")
    assert checked_addresses(target, private=False, look_up=answering(address)) == (address,)


def test_a_name_that_nobody_knows_is_refused() -> None:
    def unknown(_host: str, _port: int) -> Sequence[str]:
        raise OSError

    target = Target.parse("https://nowhere.invalid/")
    with pytest.raises(Refused, match=r"nowhere\.invalid cannot be found"):
        checked_addresses(target, private=True, look_up=unknown)
    for host in ("a..b", "a" * 70 + ".com"):
        with pytest.raises(Refused, match="cannot be found"):
            checked_addresses(Target.parse(f"http://{host}/"), private=True)
    with pytest.raises(Refused, match="no address"):
        checked_addresses(target, private=True, look_up=answering())
