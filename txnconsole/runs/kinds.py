"""The jobs that can be run, and what each may be asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.model.errors import InvalidRequest

_TOPIC = re.compile(r"[\w.~%-]+/[\w.~%-]+/[\w.~%-]+")
_PATTERN = re.compile(r"[\w.~%/*?\[\]!-]+")
_NAME = re.compile(r"[\w.-]{1,100}", re.ASCII)
_OFFSET = r'"\d+"\s*:\s*\d+\s*'
#: Written so that each character can be read in one way only: a search that tries others takes a
#: time that doubles with each offset.
_OFFSETS = re.compile(rf"earliest|latest|\{{\s*({_OFFSET}(,\s*{_OFFSET})*)?\}}", re.ASCII)
_HOURS = re.compile(r"[1-9]\d{0,3}", re.ASCII)
_HOURS_OR_NONE = re.compile(r"0|[1-9]\d{0,4}", re.ASCII)
_YES_NO = re.compile("yes|no")
_LENGTH = 2000


@dataclass(frozen=True, slots=True)
class Parameter:
    """An option of a job. ``form`` is what its text must look like; ``topics``: it names topics
    that the run's token is for."""

    name: str
    help: str
    form: re.Pattern[str] | None = None
    required: bool = False
    topics: bool = False

    @property
    def title(self) -> str:
        """Its name as people read it."""
        return self.name.replace("_", " ").capitalize()

    def fault(self, text: str) -> str | None:
        """What is wrong with a value, if anything."""
        if len(text) > _LENGTH:
            return f"has more than {_LENGTH} characters"
        if self.form is not None and not self.form.fullmatch(text):
            return f"is not of the form that is needed here: {self.help}"
        return None


@dataclass(frozen=True, slots=True)
class Kind:
    """A job: its module, which is run as a program, and its parameters, which become options."""

    name: str
    module: str
    does: str
    parameters: tuple[Parameter, ...]
    #: Options that it has as a run, whatever it is asked for.
    options: tuple[str, ...] = ()
    #: Topics that it reads or writes, whatever it is asked for.
    own_topics: tuple[str, ...] = ()
    #: Whether it writes messages.
    writes: bool = False
    #: Whether it reads the databases straight; else it gets no way to them, but a token.
    databases: bool = False
    #: Of which of them it writes something, and so has the server's own rights there.
    owns: frozenset[str] = frozenset()

    def arguments(self, parameters: Mapping[str, str]) -> list[str]:
        """The program's arguments."""
        given = [f"--{name.replace('_', '-')}={value}" for name, value in parameters.items()]
        return [*self.options, *given]

    def topics(self, parameters: Mapping[str, str]) -> list[str]:
        """Patterns of the topics that the job reads or writes over REST."""
        named = (parameters.get(each.name) for each in self.parameters if each.topics)
        return [*self.own_topics, *(topic for topic in named if topic)]

    def check(self, parameters: Mapping[str, str]) -> dict[str, str]:
        """The parameters, empty ones left out.

        Raises:
            InvalidRequest: one is unknown, missing or malformed.
        """
        given = {name: value.strip() for name, value in parameters.items() if value.strip()}
        known = {each.name: each for each in self.parameters}
        unknown = f"is not a parameter of this job; it has {', '.join(known) or 'none'}"
        faults = dict.fromkeys(given.keys() - known.keys(), unknown)
        faults |= {
            each.name: "is required"
            for each in self.parameters
            if each.required and each.name not in given
        }
        for name in given.keys() & known.keys():
            if fault := known[name].fault(given[name]):
                faults[name] = fault
        if faults:
            raise InvalidRequest(
                "; ".join(f"{name} {fault}" for name, fault in sorted(faults.items())) + ".",
                field={f"parameters.{name}": fault for name, fault in sorted(faults.items())},
            )
        return given


_AUDIT = Kind(
    "audit",
    "txnconsole.pipeline.jobs.audit",
    "Recomputes from the raw log what the engine says, and compares.",
    (Parameter("topics", "a pattern over topics such as public/default/*", _PATTERN),),
    databases=True,
)

_DEMO = Kind(
    "demo",
    "txnconsole.pipeline.jobs.demo",
    "Computes delays per carrier and hour of the flights that nobody has counted yet.",
    (),
    options=("--available-now",),
    own_topics=("public/default/flights", "public/default/carrier-delays"),
    writes=True,
)

_REPLAY = Kind(
    "replay",
    "txnconsole.pipeline.jobs.replay",
    "Produces a range of a topic again, filtered or transformed, into another, exactly once.",
    (
        Parameter("name", "this replay's own name; the same name goes on", _NAME, required=True),
        Parameter(
            "source",
            "the topic to read: tenant/namespace/topic",
            _TOPIC,
            required=True,
            topics=True,
        ),
        Parameter(
            "target", "the topic to write; it must exist", _TOPIC, required=True, topics=True
        ),
        Parameter(
            "start", 'where it begins: earliest, latest or JSON such as {"0": 120}', _OFFSETS
        ),
        Parameter("to", 'where it ends, exclusive: latest or JSON such as {"0": 120}', _OFFSETS),
        Parameter("where", "which messages: Spark SQL over a message's columns"),
        Parameter("payload", "Spark SQL that makes the new payload"),
        Parameter("key", "Spark SQL that makes the new key"),
        Parameter("keep_partitions", "into the partitions of the same numbers: yes or no", _YES_NO),
    ),
    writes=True,
)

_METRICS = Kind(
    "metrics",
    "txnconsole.pipeline.jobs.metrics",
    "Computes throughput, abort ratios, latencies and who held readers back, a minute at a time.",
    (
        Parameter(
            "hours", "how many hours back, the present one included (since it last ran)", _HOURS
        ),
    ),
    databases=True,
    owns=frozenset({"DATABASE_URL"}),
)

_OFFLOAD = Kind(
    "offload",
    "txnconsole.pipeline.jobs.offload",
    "Moves the batches of sealed segments into Parquet files, from which they are read on.",
    (
        Parameter("topics", "a pattern over topics such as public/default/*", _PATTERN),
        Parameter("older_than_hours", "sealed so many hours ago (24); 0: all", _HOURS_OR_NONE),
    ),
    databases=True,
    owns=frozenset({"BROKER_DATABASE_URLS"}),
)

KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in (_AUDIT, _DEMO, _METRICS, _OFFLOAD, _REPLAY)
}


def schedule_faults(names: Iterable[str]) -> dict[str, str]:
    """Why jobs of these names cannot be started by a schedule, which gives no parameters."""
    faults = {}
    for name in sorted(names):
        try:
            kind_named(name).check({})
        except InvalidRequest as error:
            faults[name] = error.message
    return faults


def kind_named(name: str) -> Kind:
    """The job of a name.

    Raises:
        InvalidRequest: there is none.
    """
    kind = KINDS.get(name)
    if kind is None:
        message = f"is one of {', '.join(sorted(KINDS))}"
        raise InvalidRequest(f"kind {message}.", field={"kind": message})
    return kind
