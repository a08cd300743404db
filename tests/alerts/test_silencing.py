from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.alerts.conftest import rule_of
from txnconsole.alerts.kinds import Kind
from txnconsole.alerts.models import Silence
from txnconsole.alerts.silencing import Holding, Silences, open_silences
from txnconsole.enginedb.clock import database_now

MOMENTS = [datetime(2026, 11, day, tzinfo=UTC) for day in (1, 2, 3)]
HOLDING = st.builds(
    Holding,
    rule_id=st.sampled_from([None, 1, 2]),
    objects_matching=st.sampled_from(["*", "a*", "?b", "ab", "[!a]*"]),
    until=st.sampled_from(MOMENTS),
)


@given(
    st.lists(HOLDING),
    st.lists(st.tuples(st.sampled_from([None, 1, 2]), st.text("ab", max_size=3))),
)
def test_the_latest_end_of_all_that_cover_an_object_counts(
    holding: list[Holding], asked: list[tuple[int | None, str]]
) -> None:
    silences = Silences(holding)
    for rule_id, name in asked:
        covering = [
            one.until
            for one in holding
            if one.rule_id in (None, rule_id) and fnmatchcase(name, one.objects_matching)
        ]
        assert silences.until(rule_id, name) == max(covering, default=None)


@pytest.mark.django_db
def test_what_was_matched_is_remembered_until_other_silences_hold() -> None:
    now = database_now()
    rule = rule_of(Kind.HELD_BACK)
    given = {"reason": "work", "created_by": "ann", "created_at": now}
    until = now + timedelta(hours=1)
    first = Silence.objects.create(objects_matching="a*", until=until, rule=rule, **given)
    Silence.objects.create(objects_matching="*", until=now, **given)  # It is over.
    before = open_silences()
    assert before.until(rule.pk, "ab") == until
    assert before.until(rule.pk, "b") is before.until(rule.pk + 1, "ab") is None
    assert open_silences() is before
    Silence.objects.create(objects_matching="b", until=until, **given)
    assert open_silences().until(rule.pk, "b") == until
    Silence.objects.filter(pk=first.pk).update(ended_at=now)
    assert open_silences().until(rule.pk, "ab") is None
