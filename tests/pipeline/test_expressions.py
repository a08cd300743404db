from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from txnconsole.pipeline import expressions
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
        ("'${env:TXNCONSOLE_TOKEN}'", "${"),
        ("reflect ${system:file.separator}* */ ('java.lang.System', 'exit')", "*/"),
    ],
)
def test_what_reaches_beyond_the_message_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(ValueError, match="An expression") as refused:
        check_expression(text)
    assert named in str(refused.value)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("lower(upper(reflect('java.lang.System', 'getenv', 'HOME')))", "reflect"),
        ("system.builtin.reflect('a', 'b')", "system.builtin.reflect"),
        ("key = (select 1)", "ScalarSubquery"),
        ("exists (select 1)", "Exists"),
        ("offset in (select 1)", "Subquery"),
        ("transform(array(1), x -> length(java_method('a', 'b')))", "java_method"),
    ],
)
def test_what_spark_reads_is_checked_too(
    text: str, named: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expressions, "check_expression", lambda text: text)
    with pytest.raises(ValueError, match="An expression") as refused:
        expressions.column(spark, text)
    assert named in str(refused.value)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_puts_no_variables_into_an_expression(spark: SparkSession) -> None:
    assert spark.sql("SELECT '${env:PATH}' AS found").collect()[0].found == "${env:PATH}"
