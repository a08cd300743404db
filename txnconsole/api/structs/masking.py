"""Masking rules: what viewers do not see of messages."""

from __future__ import annotations

from typing import Annotated

import msgspec

from engine.model.moment import time_text
from txnconsole.access.masking import Effect, Part
from txnconsole.access.models import MaskingRule as StoredRule
from txnconsole.api.structs.access import TopicPattern
from txnconsole.api.structs.fields import NO_NUL, Answer, Body, Time

_MaskedName = Annotated[
    str,
    msgspec.Meta(
        max_length=200,
        pattern=NO_NUL,
        description="Of a field, its path (`card.number`, `items.*.iban`, `**.iban`); of a property"
        " its name; both with `*` and `?`. Empty with the others.",
        examples=["**.iban"],
    ),
]
_Effect = Annotated[
    Effect,
    msgspec.Meta(
        description="`remove` leaves it out, `replace` shows `***`, `tail` its last four"
        " characters."
    ),
]


class CreateMaskingRule(Body):
    topics: TopicPattern
    part: Part
    effect: _Effect
    name: _MaskedName = ""


class MaskingRule(Answer):
    id: int
    topics: TopicPattern
    part: Part
    name: str
    effect: Effect
    created_by: str
    created_at: Time

    @classmethod
    def of(cls, rule: StoredRule) -> MaskingRule:
        return cls(
            id=rule.pk,
            topics=rule.topics,
            part=Part(rule.part),
            name=rule.name,
            effect=Effect(rule.effect),
            created_by=rule.created_by,
            created_at=time_text(rule.created_at),
        )


class MaskingRulePage(Answer):
    items: list[MaskingRule]
    next_cursor: str | None
