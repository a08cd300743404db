from __future__ import annotations

import pytest

from engine.model.errors import InvalidRequest
from txnconsole.runs.kinds import kind_named

REPLAY = {"name": "again", "source": "a/b/c", "target": "a/b/d"}


@pytest.mark.parametrize(
    "start", ["earliest", "latest", "{}", '{"0": 120}', '{ "0":1 , "1" : 2 }', '{"10":0}']
)
def test_a_replay_begins_at_an_end_of_the_log_or_at_offsets(start: str) -> None:
    assert kind_named("replay").check(REPLAY | {"start": start})["start"] == start


@pytest.mark.parametrize(
    "start",
    [
        *("first", "{", '{"0"}', '{"0": 1,}', '{"0": 1 "1": 2}', "{0: 1}", '{"0": -1}'),
        # Each offset could be read in two ways, of which all combinations were tried.
        "{" + '"0":1 ' * 285 + "x",
        "{" + '"0":1, ' * 280 + "x",
    ],
    ids=lambda text: text[:20],
)
def test_what_is_neither_is_refused_at_once(start: str) -> None:
    with pytest.raises(InvalidRequest, match="start is not of the form"):
        kind_named("replay").check(REPLAY | {"start": start})
