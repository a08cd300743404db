"""The pure core: from relations of the raw log to rows of figures."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache, reduce
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

_SQL = Path(__file__).with_name("sql")
_KEY = ["at", "dimension", "name"]
_SUMS = ["messages", "batches", "bytes", "committed", "aborted", "held_ms"]
_SKETCHES = ["begin_commit", "commit_visible"]
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
#: Rows are for a minute, and for an hour.
RESOLUTIONS = ("minute", "hour")

#: The columns of a figure, in their order.
COLUMNS = (
    "resolution",
    *_KEY,
    *_SUMS,
    *_SKETCHES,
    *(f"{sketch}_{name}" for sketch in _SKETCHES for name in _PERCENTILES),
)


def minute_figures(
    spark: SparkSession,
    relations: Mapping[str, DataFrame],
    since: datetime,
    until: datetime,
    now: datetime,
) -> DataFrame:
    """Figures of the minutes in [since, until), and of their hours.

    Args:
        relations: ``entries``, ``headers`` and ``participants`` of the raw log.
        since, until: whole hours, so that an hour's figures are of all its minutes.
        now: when the logs are read; what is open has held readers back until then.
    """
    moments = {"since": since, "until": until, "now": now}
    parts = [_query(spark, name, relations, moments) for name in ("produced", "ended", "held")]
    minutes = reduce(lambda left, right: left.join(right, _KEY, "full"), parts)
    hours = minutes.groupBy(sf.date_trunc("hour", "at").alias("at"), "dimension", "name").agg(
        *(sf.sum(name).alias(name) for name in _SUMS),
        *(sf.kll_merge_agg_bigint(name).alias(name) for name in _SKETCHES),
    )
    both = minutes.withColumn("resolution", sf.lit("minute")).unionByName(
        hours.withColumn("resolution", sf.lit("hour"))
    )
    sums = {name: sf.coalesce(sf.col(name), sf.lit(0)).cast("long") for name in _SUMS}
    percentiles = {
        f"{sketch}_{name}": _quantile(sketch, rank)
        for sketch in _SKETCHES
        for name, rank in _PERCENTILES.items()
    }
    return both.withColumns(sums).withColumns(percentiles).select(*COLUMNS)


def _quantile(sketch: str, rank: float) -> Column:
    """A percentile in milliseconds; null when nothing was measured."""
    measured = sf.kll_sketch_get_n_bigint(sketch) > 0
    return sf.when(measured, sf.kll_sketch_get_quantile_bigint(sketch, sf.lit(rank)))


def _query(
    spark: SparkSession,
    name: str,
    relations: Mapping[str, DataFrame],
    moments: Mapping[str, datetime],
) -> DataFrame:
    text = _statement(name)
    given: dict[str, Any] = dict(relations)
    given |= {name: moment.isoformat() for name, moment in moments.items()}
    used = {key: value for key, value in given.items() if f"{{{key}}}" in text}
    return spark.sql(text, **used)


@cache
def _statement(name: str) -> str:
    return (_SQL / f"{name}.sql").read_text()
