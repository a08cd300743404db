"""Checking expressions that users type in: Spark SQL over a message's columns and nothing more.

A Spark SQL expression can call any Java method (``reflect``), read files and run queries, with all
the rights of the job. Therefore only functions of a list are allowed, and no queries. The text is
looked at before a run begins, and what Spark makes of it before it is used: Spark alone knows what
it takes for a comment, a name or a variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

#: What may stand before an opening parenthesis: pure functions, and words of the language.
_NAMES = """
    abs array_contains base64 bround btrim cardinality ceil char_length coalesce concat concat_ws
    contains date_add date_format date_sub date_trunc datediff day decode element_at encode endswith
    exists filter floor from_json get_json_object greatest hex hour if ifnull initcap instr isnan
    isnotnull isnull json_array_length json_object_keys least left length like locate lower lpad
    ltrim map map_concat map_contains_key map_filter map_from_arrays map_keys map_values md5 minute
    mod month named_struct nullif nvl nvl2 octet_length pmod position regexp_extract regexp_like
    regexp_replace repeat replace reverse right rlike round rpad rtrim second sha1 sha2 size slice
    split startswith str_to_map struct substr substring timestamp_micros timestamp_millis to_date
    to_json to_timestamp to_utc_timestamp transform translate trim try_cast try_to_timestamp
    unbase64 unhex unix_micros unix_millis unix_timestamp upper xxhash64 year and as between case
    cast else in interval not or then when
"""
_FUNCTIONS = frozenset(_NAMES.split())
_CALL = re.compile(r"([^\s()`.,+*/<>=!%&|^~-]+|`[^`]*`)\s*\(")
_QUERY = re.compile(r"\b(select|from|with|values|table)\b", re.IGNORECASE)
_COMMENT = re.compile(r"--|/\*|\*/")
#: Spark's expressions that hold a query or stand for one: its own kinds of subqueries, and tables.
_HOLDS_QUERY = re.compile(r"Subquery|^Exists$|^ListQuery$|Table|Plan")


def check_expression(text: str) -> str:
    """Return the expression, if it calls nothing but functions of the list.

    The whole text is checked, including quoted strings, so a harmless expression may be refused.

    Raises:
        ValueError: it calls something else, or has a query, a comment or a variable in it; the
            text names it.
    """
    if _COMMENT.search(text):
        raise ValueError("An expression holds no comments (-- or /* or */).")
    if "${" in text:
        raise ValueError("An expression holds no variables (${).")
    if found := _QUERY.search(text):
        raise ValueError(f"An expression holds no query: {found[0]!r} cannot stand in it.")
    for called in _CALL.findall(text):
        if called.lower() not in _FUNCTIONS:
            raise ValueError(f"An expression cannot call {called[:40]!r}.")
    return text


def column(spark: SparkSession, text: str) -> Column:
    """The expression as a column, if Spark reads it as calls of functions of the list alone.

    Raises:
        ValueError: as :func:`check_expression`.
        ParseException: it is no expression.
    """
    session = spark._jsparkSession  # noqa: SLF001 - PySpark shows nobody what it has parsed
    parsed = session.sessionState().sqlParser().parseExpression(check_expression(text))
    for node in _nodes(parsed):
        kind = node.getClass().getSimpleName()
        if kind == "UnresolvedFunction":
            name = node.nameParts().mkString(".")
            if name.lower() not in _FUNCTIONS:
                raise ValueError(f"An expression cannot call {name[:40]!r}.")
        elif _HOLDS_QUERY.search(kind):
            raise ValueError(f"An expression holds no query: Spark reads a {kind} in it.")
    return sf.expr(text)


def _nodes(node: Any) -> Iterator[Any]:
    """An expression of Spark's and all in it, one by one."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        children = found.children()
        waiting.extend(children.apply(n) for n in range(children.size()))
