"""Figures a minute, out of the raw log and the coordinators' records: throughput, abort ratio,
latencies, and who held readers back.

The pure core is :func:`~txnconsole.pipeline.metrics.figures.minute_figures`; ``store`` replaces
what is known of a range of minutes by what was computed, in one SQL transaction, so that a range
that is computed again is never counted twice. Latencies are kept as KLL sketches, which can be
merged: an hour's percentiles come of its minutes' sketches, not of their percentiles.
"""

from __future__ import annotations
