"""Questions about the whole engine, for operators. Nothing here changes what it looks at.

There are three facades: :class:`engine.inspect.inspector.Inspector`, and as parts of it
:class:`engine.inspect.transactions.TransactionQuestions` for questions about transactions
themselves, and :class:`engine.inspect.lists.Lists` for lists of many things. Each question has a
module of its own:

- about partitions: what blocks one (blockers), where its positions were and who held them
  (history), why a message is not given (visibility), its snapshots (snapshots), what a restart
  would cost (rehearsal);
- about transactions: what an end would do (impact), what they hold (holdings), whether their
  participants agree (participants), where their time went (timeline), what they consumed and
  produced (lineage), their messages (contents), where they stand in the logs (positions, spans),
  which timeout suits an owner (timeouts);
- about the whole: what hangs and what helps (hanging), whether the invariants hold (invariants and
  the ``*_checks``), a few figures of everything (standing), signs of trouble (signs), lists
  (topics, subscriptions).

Invariants
    Everything about one partition is answered from one snapshot of its broker. Several databases
    have no common snapshot; a module that asks several says in which order, and why that suffices.
    Work is bounded by what is open or by a limit, never by what has ended. An answer that would
    need more work says that it is not exact, or where to go on.

What a crash leaves behind
    Where the continuous checks stopped and what they found is stored in the coordinators'
    database. A step that a crash interrupted is done again.
"""

from __future__ import annotations
