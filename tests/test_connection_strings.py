"""Lists of connection strings, some of which name several hosts."""

from __future__ import annotations

import pytest

from txnconsole import connection_strings

_PAIR = "postgresql://u:p@a:5432,b:5433/broker_1?target_session_attrs=primary"
_WORDS = "host=a,b port=5432,5433 dbname=broker_2"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("host=a dbname=x", ["host=a dbname=x"]),
        ("host=a dbname=x,host=b dbname=y", ["host=a dbname=x", "host=b dbname=y"]),
        (" postgres://a/x , postgresql://b/y ,", ["postgres://a/x", "postgresql://b/y"]),
        ("dbname = x,,dbname = y", ["dbname = x", "dbname = y"]),
        (f"{_PAIR},{_WORDS}", [_PAIR, _WORDS]),
        (f"{_WORDS}, {_PAIR}", [_WORDS, _PAIR]),
        ("postgresql://[::1],[::2]/x,host=c", ["postgresql://[::1],[::2]/x", "host=c"]),
    ],
)
def test_a_comma_is_between_two_of_them_where_another_begins(text: str, found: list[str]) -> None:
    assert connection_strings.split(text) == found
