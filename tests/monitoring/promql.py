"""PromQL as far as the board and the rules use it: is a query well-formed, what does it ask, and
what do the alerts of tasks and requests answer?

Whatever the grammar here does not know is refused, so that no query goes unchecked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

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
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Malformed(Exception):
    """The query does not parse."""


@dataclass
class Asked:
    """What a query asks of one metric; ``values`` are those that ``=`` demands."""

    metric: str
    labels: set[str] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)


class Matcher(NamedTuple):
    label: str
    operator: str
    value: str


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Selector:
    metric: str
    matchers: tuple[Matcher, ...] = ()
    range: str | None = None


@dataclass(frozen=True)
class Call:
    """A function's, or an aggregation's with the labels that it keeps."""

    name: str
    arguments: tuple[Expression, ...]
    by: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Binary:
    """``on``: the labels by which the two sides match; None for all of them."""

    operator: str
    left: Expression
    right: Expression
    on: frozenset[str] | None = None


Expression = Number | Selector | Call | Binary


def asked(query: str) -> list[Asked]:
    """What a query asks.

    Raises:
        Malformed: it does not parse, or a function gets what it does not take.
    """
    return list(_asked(parsed(query)))


def parsed(query: str) -> Expression:
    """The query as a tree.

    Raises:
        Malformed: it does not parse, or a function gets what it does not take.
    """
    parser = _Parser(_tokens(query))
    found = parser.expression(0)
    if parser.left:
        raise Malformed(f"{parser.left[0]} is not expected")
    return found


def _asked(expression: Expression) -> Iterator[Asked]:
    match expression:
        case Selector(metric, matchers):
            yield Asked(
                metric,
                {each.label for each in matchers},
                {each.label: each.value for each in matchers if each.operator == "="},
            )
        case Call(name, arguments, by):
            labels = by | ({"le"} if name == "histogram_quantile" else set())
            for argument in arguments:
                for each in _asked(argument):
                    each.labels |= labels
                    yield each
        case Binary(_, left, right, on):
            for side in (left, right):
                for each in _asked(side):
                    each.labels |= on or frozenset()
                    yield each


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


def _ranged(expression: Expression) -> bool:
    return isinstance(expression, Selector) and expression.range is not None


class _Parser:
    """Recursive descent."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.left = tokens

    def expression(self, level: int) -> Expression:
        if level == len(_BINARY):
            return self._operand()
        found = self.expression(level + 1)
        while self.left and self.left[0][1] in _BINARY[level]:
            operator = self.left.pop(0)[1]
            on = self._labels() if self._taken("on") else None
            right = self.expression(level + 1)
            if _ranged(found) or _ranged(right):
                raise Malformed("an operator takes no range")
            found = Binary(operator, found, right, on)
        return found

    def _operand(self) -> Expression:
        kind, text = self._next()
        if kind == "number":
            return Number(float(text))
        if text == "(":
            found = self.expression(0)
            self._expect(")")
            return found
        if kind != "word":
            raise Malformed(f"{text!r} is not expected")
        if text in _AGGREGATIONS:
            return self._aggregation(text)
        if self._at("("):
            return self._function(text)
        return self._selector(text)

    def _aggregation(self, name: str) -> Call:
        by = self._by()
        arguments = self._arguments()
        by |= self._by()
        if len(arguments) != _AGGREGATIONS[name]:
            raise Malformed(f"{name} takes {_AGGREGATIONS[name]} arguments")
        if any(map(_ranged, arguments)):
            raise Malformed(f"{name} takes no range")
        return Call(name, arguments, by)

    def _function(self, name: str) -> Call:
        if name not in _FUNCTIONS:
            raise Malformed(f"there is no function {name}")
        arguments = self._arguments()
        if tuple(map(_ranged, arguments)) != _FUNCTIONS[name]:
            raise Malformed(f"{name} takes other arguments")
        if name in ("rate", "increase"):
            [of] = arguments
            assert isinstance(of, Selector)
            if not re.search("_(total|bucket|count|sum)$", of.metric):
                raise Malformed(f"{name} of {of.metric}, which is no counter")
        return Call(name, arguments)

    def _selector(self, metric: str) -> Selector:
        matchers = []
        if self._taken("{"):
            while not self._at("}"):
                label, operator, value = self._next()[1], self._next()[1], self._next()
                if operator not in ("=", "!=", "=~", "!~") or value[0] != "string":
                    raise Malformed(f"{label}{operator}{value[1]} is no matcher")
                matchers.append(Matcher(label, operator, value[1][1:-1]))
                if not self._at("}"):
                    self._expect(",")
            self._expect("}")
        if not self._taken("["):
            return Selector(metric, tuple(matchers))
        kind, duration = self._next()
        if kind != "duration":
            raise Malformed("a range is a duration")
        self._expect("]")
        return Selector(metric, tuple(matchers), duration)

    def _by(self) -> frozenset[str]:
        return self._labels() if self._taken("by") else frozenset()

    def _labels(self) -> frozenset[str]:
        self._expect("(")
        labels: set[str] = set()
        while not self._at(")"):
            labels.add(self._next()[1])
            if not self._at(")"):
                self._expect(",")
        self._expect(")")
        return frozenset(labels)

    def _arguments(self) -> tuple[Expression, ...]:
        self._expect("(")
        found = []
        while not self._at(")"):
            found.append(self.expression(0))
            if not self._at(")"):
                self._expect(",")
        self._expect(")")
        return tuple(found)

    def _at(self, text: str) -> bool:
        return bool(self.left) and self.left[0][1] == text

    def _taken(self, text: str) -> bool:
        there = self._at(text)
        if there:
            self.left.pop(0)
        return there

    def _expect(self, text: str) -> None:
        if self._next()[1] != text:
            raise Malformed(f"{text!r} is missing")

    def _next(self) -> tuple[str, str]:
        if not self.left:
            raise Malformed("it ends too early")
        return self.left.pop(0)


#: The labels of a series, without the metric's name; what a query answers, and what a scrape has.
Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Scrape = Mapping[str, Vector]


class Scraped(NamedTuple):
    """A scrape, and at which second it was made."""

    at: float
    samples: Scrape


def firing(query: str, seconds: float, history: Sequence[Scraped]) -> list[tuple[float, Labels]]:
    """From when on an alert fires, and for which labels: the query has answered them at each scrape
    for so many seconds."""
    rule, since = parsed(query), dict[Labels, float]()
    fired: list[tuple[float, Labels]] = []
    for place, scraped in enumerate(history):
        found = evaluated(rule, history[: place + 1])
        since = {labels: since.get(labels, scraped.at) for labels in found}
        known = {labels for _, labels in fired}
        fired += [
            (scraped.at, labels)
            for labels, began in since.items()
            if scraped.at - began >= seconds and labels not in known
        ]
    return fired


def evaluated(expression: Expression, history: Sequence[Scraped]) -> Vector:
    """What the expression answers at the newest scrape; a number has no labels. Ranges are not
    extrapolated to their edges, as Prometheus does, which changes no comparison with 0."""
    match expression:
        case Number(value):
            return {frozenset(): value}
        case Selector():
            return _chosen(expression, history[-1].samples)
        case Call("rate" | "increase" as name, (Selector(range=str(duration)) as of,)):
            seconds = lasting(duration)
            return {
                labels: grown / (seconds if name == "rate" else 1.0)
                for labels, grown in _grown(of, seconds, history).items()
            }
        case Call("absent", (of,)):
            return {} if evaluated(of, history) else {frozenset(): 1.0}
        case Call("sum" | "max" as name, (of,), by):
            groups: dict[Labels, list[float]] = {}
            for labels, value in evaluated(of, history).items():
                groups.setdefault(_only(labels, by), []).append(value)
            return {
                labels: sum(values) if name == "sum" else max(values)
                for labels, values in groups.items()
            }
        case Binary():
            return _both(expression, history)
        case _:
            raise NotImplementedError(expression)


def lasting(duration: str) -> float:
    """A duration's seconds."""
    number, unit = re.fullmatch(r"(\d+)(\w+)", duration).groups()  # type: ignore[union-attr]
    return int(number) * _UNITS[unit]


def _chosen(of: Selector, scrape: Scrape) -> Vector:
    return {
        labels: value
        for labels, value in scrape.get(of.metric, {}).items()
        if all(_matches(each, dict(labels).get(each.label, "")) for each in of.matchers)
    }


def _matches(matcher: Matcher, value: str) -> bool:
    same = (
        re.fullmatch(matcher.value, value) is not None
        if matcher.operator in ("=~", "!~")
        else value == matcher.value
    )
    return same == (matcher.operator in ("=", "=~"))


def _grown(of: Selector, seconds: float, history: Sequence[Scraped]) -> Vector:
    """By how much each counter that was seen twice within the range has grown, over restarts."""
    until = history[-1].at
    seen: dict[Labels, list[float]] = {}
    for scraped in history:
        if until - seconds <= scraped.at:
            for labels, value in _chosen(of, scraped.samples).items():
                seen.setdefault(labels, []).append(value)
    return {
        labels: sum(
            later - earlier if later >= earlier else later for earlier, later in pairwise(values)
        )
        for labels, values in seen.items()
        if len(values) > 1
    }


def _both(expression: Binary, history: Sequence[Scraped]) -> Vector:
    operator, on = expression.operator, expression.on
    left, right = evaluated(expression.left, history), evaluated(expression.right, history)

    def key(labels: Labels) -> Labels:
        return labels if on is None else _only(labels, on)

    by_key = {key(labels): value for labels, value in right.items()}
    if operator in ("and", "unless"):
        return {
            labels: value
            for labels, value in left.items()
            if (key(labels) in by_key) == (operator == "and")
        }
    if isinstance(expression.right, Number):
        by_key = {key(labels): expression.right.value for labels in left}
    pairs = {
        labels: (value, by_key[key(labels)])
        for labels, value in left.items()
        if key(labels) in by_key
    }
    match operator:
        case "/":
            return {labels: a / b for labels, (a, b) in pairs.items()}
        case ">":
            return {labels: a for labels, (a, b) in pairs.items() if a > b}
        case "==":
            return {labels: a for labels, (a, b) in pairs.items() if a == b}
        case _:
            raise NotImplementedError(operator)


def _only(labels: Labels, kept: frozenset[str]) -> Labels:
    return frozenset(pair for pair in labels if pair[0] in kept)
