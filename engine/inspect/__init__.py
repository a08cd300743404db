"""Questions about the whole engine, for operators; nothing here changes what it looks at.

Three facades: :class:`engine.inspect.inspector.Inspector` for questions, and as parts of it
:class:`engine.inspect.transactions.TransactionQuestions` for those about transactions themselves
and :class:`engine.inspect.lists.Lists` for many things at once. A module for each question: what
blocks a partition (blockers), what an end would do (impact), where positions stood and who held
them (history), why a message is not given (visibility), whether participants agree (participants),
what hangs and what helps (hanging), whether the invariants hold (invariants and the ``*_checks``),
what a restart would cost (rehearsal).

Invariants
    Everything about one partition is answered from one snapshot of its broker. Databases have no
    common snapshot: each module that asks several says in which order, and why that is enough.
    Work is bounded by what is open or by a limit, never by what has ended; an answer that would
    take more says that it is not exact, or where to go on.

What a crash leaves behind
    Where the continuous checks stopped and what they found is a record in the coordinators'
    database; a step that a crash cut off is done again.
"""

from __future__ import annotations
