"""Offset ranges in PostgreSQL."""

from __future__ import annotations

import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.model.ranges import Ranges
from engine.postgres import offsets
from tests.support.databases import Databases


@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30))), min_size=20))
def test_ranges_go_to_postgresql_and_back_and_mean_the_same_there(
    databases: Databases, pairs: list[tuple[set[int], set[int]]]
) -> None:
    with psycopg.connect(databases.coordinator_url) as connection:
        offsets.register(connection)
        for left, right in pairs:
            one, other = Ranges.of_offsets(left), Ranges.of_offsets(right)
            row = connection.execute(
                "SELECT %(a)s::int8multirange, %(a)s::int8multirange + %(b)s::int8multirange,"
                " %(a)s::int8multirange * %(b)s::int8multirange,"
                " %(a)s::int8multirange - %(b)s::int8multirange",
                {"a": one, "b": other},
            ).fetchone()
            assert row == (one, one | other, one & other, one - other)
