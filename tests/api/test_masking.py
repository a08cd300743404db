"""Masking rules over REST; that they mask is in tests/access and tests/console."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.api.conftest import MESSAGES, TOPIC, Caller
from txnconsole.access.masking_rules import MAX_MASKING_RULES
from txnconsole.access.models import MaskingRule
from txnconsole.api.views import masking
from txnconsole.audit.models import AuditEntry

_RULES = "/masking-rules"
_KEY = {"topics": TOPIC, "part": "key", "effect": "tail"}


@pytest.fixture
def admin(as_role: Callable[..., Caller]) -> Caller:
    return as_role("admin", user="root")


def test_a_rule_masks_until_it_is_deleted_and_both_are_audited(
    topic: str, admin: Caller, as_role: Callable[..., Caller]
) -> None:
    viewer = as_role("viewer")
    sent = admin.post(MESSAGES, {"messages": [{"payload": "x", "key": "DE00-1234-5678"}]})
    assert sent.status == 201
    made = admin.post(_RULES, _KEY)
    assert made.status == 201
    rule = made.json
    assert rule.pop("created_at")
    number = rule.pop("id")
    assert rule == _KEY | {"name": "", "created_by": "root"}
    assert viewer.get(MESSAGES).json["messages"][0]["key"] == "**********5678"
    assert [each["id"] for each in viewer.get(_RULES).json["items"]] == [number]
    assert admin.delete(f"{_RULES}/{number}").status == 204
    assert viewer.get(MESSAGES).json["messages"][0]["key"] == "DE00-1234-5678"
    deleted, created = AuditEntry.objects.order_by("-sequence")[:2]
    assert (created.who, created.action, created.object) == (
        "root",
        "masking.create",
        f"topics:{TOPIC}",
    )
    assert (deleted.action, deleted.object) == ("masking.delete", f"masking_rule:{number}")
    assert json.loads(deleted.before)["topics"] == TOPIC


def test_a_rule_that_is_deleted_at_once_was_made_all_the_same(
    admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = masking.add_masking_rule

    def deleted_at_once(*args: Any, **options: Any) -> MaskingRule:
        made = real(*args, **options)
        MaskingRule.objects.filter(pk=made.pk).delete()
        return made

    monkeypatch.setattr(masking, "add_masking_rule", deleted_at_once)
    assert admin.post(_RULES, _KEY).json["created_at"]


def test_deleting_a_rule_twice_is_404_and_the_same_call_again_is_not(
    admin: Caller, as_role: Callable[..., Caller]
) -> None:
    number = admin.post(_RULES, _KEY).json["id"]
    path = f"{_RULES}/{number}"
    for _ in range(2):
        assert admin.send("DELETE", path, Idempotency_Key="k").status == 204
    assert admin.delete(path).is_problem(404, "MaskingRuleNotFound")
    assert admin.delete(f"{_RULES}/{2**70}").is_problem(404, "MaskingRuleNotFound")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (_KEY | {"topics": ""}, "topics"),
        (_KEY | {"part": "headers"}, "part"),
        (_KEY | {"effect": "blur"}, "effect"),
        (_KEY | {"name": "iban"}, "name"),
        (_KEY | {"part": "field"}, "name"),
        (_KEY | {"part": "field", "name": "card..number"}, "name"),
        (_KEY | {"part": "field", "name": "card.**"}, "name"),
        (_KEY | {"part": "property", "name": "\0"}, "name"),
    ],
)
def test_a_malformed_rule_names_the_field(body: object, field: str, admin: Caller) -> None:
    refused = admin.post(_RULES, body)
    assert refused.is_problem(400, "InvalidRequest")
    assert [each["field"] for each in refused.json["errors"]] == [field]


def test_the_list_goes_on_by_its_cursor(admin: Caller) -> None:
    MaskingRule.objects.bulk_create(
        MaskingRule(topics="public/*", part="key", effect="remove", created_by="root")
        for _ in range(MAX_MASKING_RULES)
    )
    first = admin.get(f"{_RULES}?limit=60").json
    rest = admin.get(f"{_RULES}?limit=60&cursor={first['next_cursor']}").json
    ids = [each["id"] for each in first["items"] + rest["items"]]
    assert (len(ids), rest["next_cursor"]) == (MAX_MASKING_RULES, None)
    assert ids == sorted(set(ids))
    assert admin.post(_RULES, _KEY).is_problem(400, "InvalidRequest")
