"""PromQL as far as the board and the rules use it: is a query well-formed, and what does it ask?

Not an evaluator. Metric names, the labels asked of each, and the values that ``=`` demands are all
that is kept; whatever the grammar here does not know is refused, so that no query goes unchecked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<duration>\d+(?:ms|[smhdwy])|\$__rate_interval|\$__interval)
    |(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<word>[a-zA-Z_:][a-zA-Z0-9_:]*)
    |(?P<operator>=~|!~|!=|==|>=|<=|[-+*/%^()\[\]{},=<>])
    )""",
    re.VERBOSE,
)
_AGGREGATIONS = {
    **dict.fromkeys(("sum", "min", "max", "avg", "count"), 1),
    **dict.fromkeys(("topk", "bottomk", "quantile"), 2),
}
#: Functions, and of which of their arguments a range is demanded.
_FUNCTIONS: dict[str, tuple[bool, ...]] = {
    **dict.fromkeys(("rate", "increase", "irate", "max_over_time", "avg_over_time"), (True,)),
    "histogram_quantile": (False, False),
    "absent": (False,),
    "clamp_min": (False, False),
    "time": (),
}
_BINARY = (
    {"or"},
    {"and", "unless"},
    {"==", "!=", ">", "<", ">=", "<="},
    {"+", "-"},
    {"*", "/", "%"},
)


class Malformed(Exception):
    """The query does not parse."""


@dataclass
class Asked:
    """What a query asks of one metric; ``values`` are those that ``=`` demands."""

    metric: str
    labels: set[str] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)


def asked(query: str) -> list[Asked]:
    """What a query asks.

    Raises:
        Malformed: it does not parse, or a function gets what it does not take.
    """
    parser = _Parser(_tokens(query))
    found, _ = parser.expression(0)
    if parser.left:
        raise Malformed(f"{parser.left[0]} is not expected")
    return found


def _tokens(query: str) -> list[tuple[str, str]]:
    tokens, place = [], 0
    query = query.rstrip()
    while place < len(query):
        match = _TOKEN.match(query, place)
        if match is None:
            raise Malformed(f"{query[place:]!r} is no PromQL")
        assert match.lastgroup is not None
        tokens.append((match.lastgroup, match[match.lastgroup]))
        place = match.end()
    return tokens


class _Parser:
    """Recursive descent; each method answers what was asked and whether it is a range."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.left = tokens

    def expression(self, level: int) -> tuple[list[Asked], bool]:
        if level == len(_BINARY):
            return self._operand()
        found, ranged = self.expression(level + 1)
        while self.left and self.left[0][1] in _BINARY[level]:
            self.left.pop(0)
            right, right_ranged = self.expression(level + 1)
            if ranged or right_ranged:
                raise Malformed("an operator takes no range")
            found = found + right
        return found, ranged

    def _operand(self) -> tuple[list[Asked], bool]:
        kind, text = self._next()
        if kind == "number":
            return [], False
        if text == "(":
            found = self.expression(0)
            self._expect(")")
            return found
        if kind != "word":
            raise Malformed(f"{text!r} is not expected")
        if text in _AGGREGATIONS:
            return self._aggregation(text), False
        if self._at("("):
            return self._function(text), False
        return self._selector(text)

    def _aggregation(self, name: str) -> list[Asked]:
        by = self._by()
        arguments = self._arguments()
        by |= self._by()
        if len(arguments) != _AGGREGATIONS[name]:
            raise Malformed(f"{name} takes {_AGGREGATIONS[name]} arguments")
        if any(ranged for _, ranged in arguments):
            raise Malformed(f"{name} takes no range")
        found = [each for argument, _ in arguments for each in argument]
        for each in found:
            each.labels |= by
        return found

    def _function(self, name: str) -> list[Asked]:
        if name not in _FUNCTIONS:
            raise Malformed(f"there is no function {name}")
        arguments = self._arguments()
        if tuple(ranged for _, ranged in arguments) != _FUNCTIONS[name]:
            raise Malformed(f"{name} takes other arguments")
        found = [each for argument, _ in arguments for each in argument]
        for each in found:
            if name == "histogram_quantile":
                each.labels.add("le")
            if name in ("rate", "increase") and not re.search(
                "_(total|bucket|count|sum)$", each.metric
            ):
                raise Malformed(f"{name} of {each.metric}, which is no counter")
        return found

    def _selector(self, metric: str) -> tuple[list[Asked], bool]:
        found = Asked(metric)
        if self._at("{"):
            self._expect("{")
            while not self._at("}"):
                label, operator, value = self._next()[1], self._next()[1], self._next()
                if operator not in ("=", "!=", "=~", "!~") or value[0] != "string":
                    raise Malformed(f"{label}{operator}{value[1]} is no matcher")
                found.labels.add(label)
                if operator == "=":
                    found.values[label] = value[1][1:-1]
                if not self._at("}"):
                    self._expect(",")
            self._expect("}")
        if not self._at("["):
            return [found], False
        self._expect("[")
        if self._next()[0] != "duration":
            raise Malformed("a range is a duration")
        self._expect("]")
        return [found], True

    def _by(self) -> set[str]:
        if not (self.left and self.left[0][1] in ("by", "without")):
            return set()
        self.left.pop(0)
        self._expect("(")
        labels: set[str] = set()
        while not self._at(")"):
            labels.add(self._next()[1])
            if not self._at(")"):
                self._expect(",")
        self._expect(")")
        return labels

    def _arguments(self) -> list[tuple[list[Asked], bool]]:
        self._expect("(")
        found = []
        while not self._at(")"):
            found.append(self.expression(0))
            if not self._at(")"):
                self._expect(",")
        self._expect(")")
        return found

    def _at(self, text: str) -> bool:
        return bool(self.left) and self.left[0][1] == text

    def _expect(self, text: str) -> None:
        if self._next()[1] != text:
            raise Malformed(f"{text!r} is missing")

    def _next(self) -> tuple[str, str]:
        if not self.left:
            raise Malformed("it ends too early")
        return self.left.pop(0)
