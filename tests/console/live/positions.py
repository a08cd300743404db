"""Where a page says that its channel stood."""

from __future__ import annotations

import re

from django.test import Client


def position_of(client: Client, address: str) -> str:
    """The position on the page at an address."""
    found = re.search(r'data-position="(\w+)"', client.get(address).content.decode())
    assert found is not None
    return found[1]
