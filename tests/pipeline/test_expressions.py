from __future__ import annotations

import pytest

from txnconsole.pipeline.expressions import check_expression


@pytest.mark.parametrize(
    "text",
    [
        "",
        "key = 'UA' and partition in (1, 2)",
        "get_json_object(cast(payload as string), '$.carrier') is not null",
        "upper(concat(key, '-', cast(offset as string)))",
        "event_time > timestamp '2026-01-01'",
        "CASE WHEN (offset > 3) THEN key ELSE (lower(key)) END",
        "properties['a'] = 'b'",
    ],
)
def test_expressions_over_columns_are_let_through(text: str) -> None:
    assert check_expression(text) == text


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("reflect('java.lang.System', 'getenv', 'DATABASE_URL')", "reflect"),
        ("REFLECT ('java.lang.System', 'exit')", "REFLECT"),
        ("`reflect`('java.lang.System', 'exit')", "`reflect`"),
        ("system.builtin.java_method('a', 'b')", "java_method"),
        ("reflect\n('a')", "reflect"),
        ("lower(try_reflect('a', 'b'))", "try_reflect"),
        ("exists (select 1)", "select"),
        ("(FROM text.`/etc/passwd` |> limit 1) = 'x'", "FROM"),
        ("reflect/**/('a')", "/*"),
        ("reflect -- x\n ('a')", "--"),
        ("not_a_function(key)", "not_a_function"),
        ("1 in (table t)", "table"),
    ],
)
def test_what_reaches_beyond_the_message_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(ValueError, match="An expression") as refused:
        check_expression(text)
    assert named in str(refused.value)
