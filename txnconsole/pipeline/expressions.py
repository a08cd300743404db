"""Checking expressions that users type in: Spark SQL over a message's columns and nothing more.

A Spark SQL expression can call any Java method (``reflect``), read files and run queries, with all
the rights of the job. Therefore only functions of a list are allowed, and no queries.
"""

from __future__ import annotations

import re

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
_COMMENT = re.compile(r"--|/\*")


def check_expression(text: str) -> str:
    """Return the expression, if it calls nothing but functions of the list.

    The whole text is checked, including quoted strings, so a harmless expression may be refused.

    Raises:
        ValueError: it calls something else, or has a query or a comment in it; the text names it.
    """
    if _COMMENT.search(text):
        raise ValueError("An expression holds no comments (-- or /*).")
    if found := _QUERY.search(text):
        raise ValueError(f"An expression holds no query: {found[0]!r} cannot stand in it.")
    for called in _CALL.findall(text):
        if called.lower() not in _FUNCTIONS:
            raise ValueError(f"An expression cannot call {called[:40]!r}.")
    return text
