"""Figures for Prometheus (docs/monitoring.md).

What transactions do is counted in the coordinators' database, in the SQL transaction that does it,
and what the engine holds is asked of the databases: any web process answers all of it, and a
restart loses nothing. ``collector`` puts both into Prometheus's families; it asks at most once in
a few seconds, whoever comes. Requests are counted in the process that answers them (``requests``);
several processes behind one address share these through ``PROMETHEUS_MULTIPROC_DIR``.
"""

from __future__ import annotations
