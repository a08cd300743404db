"""What counts as the failure of one part of some work, such as a partition: the others go on."""

from __future__ import annotations

import psycopg

from engine.model.errors import EngineError

#: The engine or PostgreSQL refuses, a file cannot be read, or code meets a value that it does not
#: expect. Anything else, such as a worker's time limit or a lack of memory, is not about the part.
FAILURES = (
    EngineError,
    psycopg.Error,
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
