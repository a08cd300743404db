"""Paths lead to the same views whether they are remembered or not, and requests share nothing."""

from __future__ import annotations

import pytest
from django.urls import Resolver404, resolve

from txnconsole.api.routing import RememberingResolver

PATHS = [
    "/api/v1/transactions",
    "/api/v1/transactions/1:2/commit",
    "/api/v1/topics/public/default/orders/partitions/3/messages",
    "/api/v1/topics/public/default/orders/subscriptions/billing/ack",
    "/api/v1/coordinators/7",
    "/api/v1/nothing/here",
    "/api/v1/topics/public/default/" + "x" * 600,
]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_leads_where_it_led_before(path: str) -> None:
    first, again = resolve(path), resolve(path)
    assert (first.func, first.args, first.kwargs) == (again.func, again.args, again.kwargs)
    assert first.route == again.route
    assert first.route.startswith("api/v1/")


def test_what_a_request_does_to_its_names_is_not_the_next_ones_matter() -> None:
    path = PATHS[2]
    resolve(path).kwargs["topic"] = "another"
    assert resolve(path).kwargs["topic"] == "orders"


def test_paths_are_remembered_up_to_a_length_and_a_number() -> None:
    resolver = RememberingResolver("api/v1/", "txnconsole.api.urls")
    for number in range(3000):
        resolver.resolve(f"api/v1/transactions/0:{number}")
    resolver.resolve("api/v1/transactions/" + "x" * 600)
    remembered = resolver._remembered.cache_info()
    assert (remembered.currsize, remembered.misses) == (1024, 3000)


def test_a_path_of_elsewhere_is_not_there() -> None:
    resolver = RememberingResolver("api/v1/", "txnconsole.api.urls")
    for _ in range(2):
        with pytest.raises(Resolver404):
            resolver.resolve("overview")
