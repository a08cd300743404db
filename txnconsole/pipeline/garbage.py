"""What Spark's Python workers go through for garbage."""

from __future__ import annotations

import gc
import sys

_FORKS_WORKERS = "pyspark.daemon"


def keep_imports() -> None:
    """In a worker that Spark keeps for further tasks, leave what is there out of collections.

    It collects after each task, and all that had been imported took 60 ms, three times a write.
    """
    program = sys.modules["__main__"].__spec__
    if program is not None and program.name == _FORKS_WORKERS:
        gc.freeze()
