"""Lists of libpq connection strings."""

from __future__ import annotations

import re

#: A comma that separates two of them has the beginning of another behind it, ``postgresql://`` or
#: ``host=``. One within names a second host of the same database.
_BETWEEN = re.compile(r",(?=\s*(?:,|$|postgres(?:ql)?://|\w+\s*=))")


def split(text: str) -> list[str]:
    """The connection strings in a text that has them separated by commas, such as
    ``postgresql://a,b/broker_1?target_session_attrs=read-write,host=c,d dbname=broker_2``: two
    databases, each on either of two hosts."""
    return [each.strip() for each in _BETWEEN.split(text) if each.strip()]
