"""Figures per minute, from the raw log and the coordinators' records: throughput, abort ratio,
latencies, and who held readers back.

The pure core is :func:`~txnconsole.pipeline.metrics.figures.minute_figures`. ``store`` replaces the
figures of a range of minutes in one SQL transaction, so that a range that is computed again is
never counted twice. Latencies are kept as KLL sketches, which can be merged: an hour's percentiles
are computed from its minutes' sketches, not from their percentiles.
"""

from __future__ import annotations
