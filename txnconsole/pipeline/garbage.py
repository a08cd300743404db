"""Sparing Spark's Python workers the garbage collection of everything that they have imported."""

from __future__ import annotations

import gc
import sys

_FORKS_WORKERS = "pyspark.daemon"


def keep_imports() -> None:
    """In a worker that Spark keeps for further tasks, exempt what exists now from collections.

    Spark collects after each task. Going through all imported modules took 60 ms, three times for
    each write.
    """
    program = sys.modules["__main__"].__spec__
    if program is not None and program.name == _FORKS_WORKERS:
        gc.freeze()
