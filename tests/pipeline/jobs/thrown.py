"""What Spark's JVM throws and PySpark has no error of its own for."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError


class Thrown(Py4JJavaError):  # type: ignore[misc]
    """Says what py4j says of it, without a JVM that could be asked."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)
        self._text = text

    def __str__(self) -> str:
        return f"An error occurred while calling o398.save.\n: {self._text}"
