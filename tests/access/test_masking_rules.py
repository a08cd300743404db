from __future__ import annotations

import pytest

from engine.model.errors import InvalidRequest
from tests.support.together import meet
from txnconsole.access import masking_rules
from txnconsole.access.masking import Effect, Part
from txnconsole.access.models import MaskingRule
from txnconsole.audit.recording import Actor


@pytest.mark.django_db(transaction=True)
def test_of_two_masking_rules_that_are_made_at_once_none_is_one_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(masking_rules, "MAX_MASKING_RULES", 1)
    refused = []

    def mask(topics: str) -> None:
        try:
            masking_rules.add_masking_rule(
                Actor("ann"), topics=topics, part=Part.KEY, name="", effect=Effect.REMOVE
            )
        except InvalidRequest:
            refused.append(topics)

    beside = meet(monkeypatch, MaskingRule.objects, "create", lambda: mask("public/*"))
    mask("*")
    beside.join(60)
    assert refused == ["public/*"]
    assert [rule.topics for rule in MaskingRule.objects.all()] == ["*"]
