from __future__ import annotations

import gc
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from txnconsole.pipeline.garbage import keep_imports


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
def test_what_a_worker_has_imported_is_not_gone_through_for_garbage(spark: SparkSession) -> None:
    def looked_at(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import txnconsole.pipeline

        # By identity, not by counts: a worker that tests before this one have used
        # has imported more since, which is gone through.
        collected = {id(object_) for object_ in gc.get_objects()}
        imported = [vars(pa), vars(txnconsole.pipeline)]
        yield pa.RecordBatch.from_pydict(
            {
                "kept": [gc.get_freeze_count()],
                "left": [sum(id(names) in collected for names in imported)],
            }
        )

    [counts] = (
        spark.range(1, numPartitions=1).mapInArrow(looked_at, "kept long, left long").collect()
    )
    assert counts.kept > 0
    assert counts.left == 0


def test_other_programs_keep_their_garbage_as_it_is() -> None:
    before = gc.get_freeze_count()
    keep_imports()
    assert gc.get_freeze_count() == before
