"""The history checker: proves from the outside that the engine kept its promises.

Clients (:mod:`workload`) ask an engine or a server (:mod:`targets`) while faults are injected
(:mod:`nemesis`, :mod:`wire_proxy`). Everything that was asked and answered is a history
(:mod:`history`). :func:`check.check` reads a history and nothing else, in time linear in its
length, and names every contradiction with the operations that prove it. :mod:`audit` looks at the
databases themselves: the rebuilt state must be what the log says.

The museum (:mod:`museum`) plants known bugs and demands that each is found.
"""

from __future__ import annotations
