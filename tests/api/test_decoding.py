"""Input edges (design/quality.md, Security): always 400 with the field, never 500."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.model.page import encode_cursor
from tests.api.conftest import MESSAGES, TOPIC, Answer, Caller
from txnconsole.api import decoding, field_errors
from txnconsole.api.paging import Cursors
from txnconsole.api.structs.batches import MessageIn, Produce

_ONE = b'{"payload": "x"}'
_S = f"/topics/{TOPIC}/subscriptions/s"


def _batch(message: bytes) -> bytes:
    return b'{"messages": [' + message + b"]}"


EVENT_TIME = "messages[0].event_time"
BODIES = [
    (b"", "messages"),
    (b"{}", "messages"),
    (b"[]", ""),
    (b"null", ""),
    (b'"x"', ""),
    (b"{", ""),
    (b"{]", ""),
    (b'{"messages": ' + b"[" * 50_000, "messages[0]"),
    (b'{"messages": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", "messages[0]"),
    (b'{"unknown": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", "unknown"),
    (b"[" * 50_000, ""),
    (b'{"messages": []}', "messages"),
    (b'{"messages": {}}', "messages"),
    (b'{"messages": [1]}', "messages[0]"),
    (_batch(b"{}"), "messages[0].payload"),
    (_batch(b'{"payload": 1}'), "messages[0].payload"),
    (_batch(b'{"payload": null}'), "messages[0].payload"),
    (_batch(b'{"payload": "x", "extra": 1}'), "messages[0].extra"),
    (_batch(b'{"payload": "\\ud800"}'), ""),
    (_batch(b'{"payload": "\\udc00\\ud800"}'), ""),
    (_batch(b'{"payload": "\xff"}'), ""),
    (_batch(b'{"payload": "x", "key": "\\u0000"}'), "messages[0].key"),
    (_batch(b'{"payload": "x", "key": 7}'), "messages[0].key"),
    (_batch(b'{"payload": "x", "properties": {"a": 1}}'), "messages[0].properties[...]"),
    (_batch(b'{"payload": "x", "properties": {"a\\u0000": "b"}}'), "messages[0].properties"),
    (_batch(b'{"payload": "x", "properties": {"a": "\\u0000"}}'), "messages[0].properties"),
    (_batch(b'{"payload": "x", "event_time": "2024-01-01"}'), "messages[0].event_time"),
    (_batch(b'{"payload": "x", "event_time": "2024-01-01T00:00:00"}'), EVENT_TIME),
    (_batch(b'{"payload": "x", "event_time": 1e400}'), "messages[0].event_time"),
    (_batch(b'{"payload": "x", "event_time": 0}'), "messages[0].event_time"),
    (_batch(b'{"payload": "a", "payload_encoding": "hex"}'), "messages[0].payload_encoding"),
    (_batch(b'{"payload": "!!", "payload_encoding": "base64"}'), "messages[0].payload"),
    (_batch(b'{"payload": "QQ", "payload_encoding": "base64"}'), "messages[0].payload"),
    (_batch(b'{"payload": "\\u00e9", "payload_encoding": "base64"}'), "messages[0].payload"),
    (b'{"messages": [' + _ONE + b'], "messages": [' + _ONE + b"]}", ""),
    (_batch(b'{"payload": "x", "payload": "y"}'), ""),
    (_batch(b'{"payload": "x", "properties": {"a": "1", "a": "2"}}'), ""),
    (b'{"messages": [' + _ONE + b'], "txn_id": 7}', "txn_id"),
    (b'{"messages": [' + _ONE + b'], "txn_id": "7"}', "txn_id"),
    (b'{"messages": [' + _ONE + b'], "txn_id": "1:2\\n"}', "txn_id"),
    (b'{"messages": [' + _ONE + b'], "sequence_id": -1}', "sequence_id"),
    (b'{"messages": [' + _ONE + b'], "sequence_id": 1.5}', "sequence_id"),
    (b'{"messages": [' + _ONE + b'], "sequence_id": true}', "sequence_id"),
    (b'{"messages": [' + _ONE + b'], "sequence_id": NaN}', ""),
    (b'{"messages": [' + _ONE + b'], "sequence_id": Infinity}', ""),
    (b'{"messages": [' + _ONE + b'], "sequence_id": 9223372036854775808}', "sequence_id"),
    (b'{"messages": [' + _ONE + b'], "sequence_id": ' + b"9" * 5000 + b"}", "sequence_id"),
    (b'{"messages": [' + _ONE + b'], "producer_name": ""}', "producer_name"),
    (b'{"messages": [' + _ONE + b'], "producer_name": "a\\u0000"}', "producer_name"),
    (b'{"messages": [' + _ONE + b"]} trailing", ""),
    (b"\xef\xbb\xbf" + _batch(_ONE), ""),
    (_batch(_ONE).decode().encode("utf-16"), ""),
]


def test_a_malformed_body_is_400_and_names_the_field(program: Caller, topic: str) -> None:
    wrong = {}
    for body, field in BODIES:
        answer = program.send("POST", MESSAGES, body)
        if not _names(answer, field):
            wrong[body[:80]] = answer.content
    assert wrong == {}
    assert program.get(f"/topics/{TOPIC}/partitions/0").json["last_offset"] == -1


def test_every_field_that_is_wrong_is_named(program: Caller, topic: str) -> None:
    answer = program.post(
        "/transactions", {"timeout_ms": -1, "client": 5, "foo": 1, "bar": 2, "properties": {}}
    )
    assert _named(answer) == {"timeout_ms", "client", "foo", "bar"}
    assert all(name in answer.json["detail"] for name in _named(answer))
    answer = program.post(
        MESSAGES, {"txn_id": "x", "messages": [{"payload": "a"}, {"key": 1}], "extra": None}
    )
    assert _named(answer) == {"txn_id", "messages[1].key", "extra"}
    answer = program.get("/transactions?limit=0&order=x&status=OPEN&status=CLOSED&foo=1")
    assert _named(answer) == {"limit", "order", "status[1]", "foo"}
    [order] = [each for each in answer.json["errors"] if each["field"] == "order"]
    assert order["message"].endswith("it takes newest, oldest, overdue")
    packed = msgspec.msgpack.encode({"sequence_id": -1, "messages": [{"payload": "text"}]})
    answer = program.send("POST", MESSAGES, packed, content_type="application/msgpack")
    assert _named(answer) == {"sequence_id", "messages[0].payload"}


def test_a_name_that_is_wrong_is_told_with_the_field_that_has_it(
    program: Caller, topic: str
) -> None:
    answer = program.post("/transactions", {"properties": {"": "b"}})
    assert _named(answer) == {"properties"}
    assert "$" not in answer.json["detail"]
    packed: list[tuple[object, str]] = [
        ({"messages": [{"payload": b"x", "properties": {1: "b"}}]}, "messages[0].properties"),
        ({"messages": [{b"payload": b"x"}]}, "messages[0]"),
        ({1: 2, "messages": [{"payload": b"x"}]}, ""),
    ]
    for body, field in packed:
        answer = program.send(
            "POST", MESSAGES, msgspec.msgpack.encode(body), content_type="application/msgpack"
        )
        assert _named(answer) == {field}
        assert "$" not in answer.json["detail"]


def test_a_text_of_another_form_is_told_which_in_words(
    as_role: Callable[..., Caller], topic: str
) -> None:
    root = as_role("admin", "producer")
    orphan = f"/topics/{TOPIC}/partitions/0/force-abort"
    refused = [
        (root.post("/transactions/bulk-abort", {"reason": " ", "filter": {}, "expected_count": 0}),
         "reason", "must not be blank"),
        (root.post("/transactions", {"client": "a\0"}), "client", "client: must not hold NUL"),
        (root.post("/transactions", {"properties": {"a\0": "b"}}), "properties",
         "a name in it: must not hold NUL"),
        (root.post(MESSAGES, {"messages": [{"payload": "x", "event_time": "today"}]}),
         EVENT_TIME, "is not a time as RFC 3339 writes it"),
        (root.get("/transactions?opened_before=2026-11-25"), "opened_before",
         "opened_before: is not a time as RFC 3339 writes it"),
        (root.post(orphan, {"txn_id": "7", "reason": "r"}), "txn_id", "<coordinator>:<sequence>"),
    ]  # fmt: skip
    for answer, field, words in refused:
        assert field in _named(answer)
        assert words in answer.json["detail"], answer.content
        assert "regex" not in answer.json["detail"]


def test_of_very_many_fields_that_are_wrong_some_are_named(program: Caller, topic: str) -> None:
    answer = program.post("/transactions", {f"f{number}": 1 for number in range(10_000)})
    assert len(_named(answer)) == 20


def test_of_very_many_unknown_fields_no_more_are_looked_at_than_are_named() -> None:
    class Counted(dict[str, int]):
        looked_at = 0

        def __iter__(self) -> Iterator[str]:
            for name in super().__iter__():
                self.looked_at += 1
                yield name

    given = Counted({f"f{number}": 1 for number in range(10_000)})
    refused = msgspec.ValidationError("Object contains unknown field `f0`")
    assert len(field_errors.errors_of(refused, Produce, lambda: given, msgspec.convert)) == 20
    assert given.looked_at <= 20


def test_a_refused_body_is_not_made_into_millions_of_lists(as_role: Callable[..., Caller]) -> None:
    """They would take half a minute, in which the process hardly answers anybody else."""
    body = b'{"messages":[' + b",".join([b"[]"] * 200_000) + b'],"txn_id":1}'
    producer = as_role("producer")
    producer.send("POST", MESSAGES, b"[]")  # What only the first call makes is there by now.
    tracemalloc.start()
    try:
        answer = producer.send("POST", MESSAGES, body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert _named(answer) == {"messages[0]", "txn_id"}
    assert peak < 8 * len(body)


def test_the_member_that_occurs_twice_is_found_in_one_look() -> None:
    class Name(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str.__eq__(self, other)

    names = [Name(f"f{number}") for number in range(1_000)]
    with pytest.raises(ValueError, match="'f999' occurs twice"):
        decoding._unique([(name, None) for name in [*names, Name("f999")]])
    assert Name.compared < 10 * len(names)


def test_no_name_of_a_field_makes_the_search_for_its_place_long(program: Caller) -> None:
    # Read to its end from each beginning of a place in it, as once, it takes an hour, in which the
    # process answers nobody.
    name = " - at `$" * 120_000 + "\n"
    answer = program.post("/transactions", {name: 1})
    assert _named(answer) == {f"{name[:100]}…"}
    assert len(answer.content) < 1_000


@pytest.mark.parametrize("name", ["a`b", "a\nb", " - at `$.b", "unknown field `a`"])
def test_an_unknown_field_is_named_whatever_it_is_called(name: str, program: Caller) -> None:
    assert name in _named(program.post("/transactions", {name: 1}))


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/transactions", {"timeout": 5}, "timeout: is unknown; the nearest is timeout_ms."),
        (
            "/transactions",
            {"seconds": 5},
            "seconds: is unknown; there are timeout_ms, coordinator_id, client, properties.",
        ),
        (
            MESSAGES,
            {"messages": [{"payload": "a", "propertys": {}}]},
            "messages[0].propertys: is unknown; the nearest is properties.",
        ),
        (MESSAGES, {"messages": [], "a.txn_idd": ""}, "a.txn_idd: is unknown."),
    ],
)
def test_what_may_have_been_meant_by_an_unknown_field_is_told(
    path: str, body: Any, told: str, program: Caller, topic: str
) -> None:
    assert told in program.post(path, body).json["detail"]


def test_what_may_have_been_meant_by_an_unknown_parameter_is_told(program: Caller) -> None:
    told = program.get("/transactions?coordinator=3").json["detail"]
    assert told == "coordinator: is unknown; the nearest is coordinator_id."


def _named(answer: Answer) -> set[str]:
    assert answer.is_problem(400, "InvalidRequest")
    return {each["field"] for each in answer.json["errors"]}


#: JSON with objects as lists of members, which may have a name twice.
_STRINGS = st.text(st.sampled_from('ab ,:"\\\u00e9'), max_size=4)
_TREES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(_STRINGS, st.integers(), st.sampled_from([1.0, 1e5, None, True])),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(_STRINGS, inner), max_size=3),
    max_leaves=8,
)


@given(_TREES, st.booleans(), st.sampled_from(["", " ", "\n "]), st.sampled_from(["", "  "]))
def test_a_member_that_occurs_twice_is_found_however_the_body_is_written(
    tree: Any, ascii_only: bool, after: str, before: str
) -> None:
    twice = False

    def written(value: Any) -> str:
        nonlocal twice
        if not isinstance(value, list):
            return json.dumps(value, ensure_ascii=ascii_only)
        if not value or not all(isinstance(each, tuple) for each in value):
            return "[" + f"{before},{after}".join(map(written, value)) + "]"
        twice |= len({name for name, _ in value}) < len(value)
        members = (
            f"{json.dumps(name, ensure_ascii=ascii_only)}{before}:{after}{written(inner)}"
            for name, inner in value
        )
        return "{" + f"{before},{after}".join(members) + "}"

    body = written(tree).encode()
    if twice:
        with pytest.raises(ValueError, match="occurs twice"):
            decoding._refuse_duplicates(body, msgspec.json.decode(body))
    else:
        decoding._refuse_duplicates(body, msgspec.json.decode(body))


def _object(members: list[tuple[str, str]]) -> str:
    return "{" + " , ".join(f"{name}: {value}" for name, value in members) + "}"


#: Members of a batch of messages as texts, of which any may come twice, in any order.
_WRITTEN_STRINGS = st.sampled_from(
    [
        '""',
        '"a"',
        '"payload"',
        '"key\\":"',
        '"\\u0022"',
        '"\\\\u0022"',
        '"\\u0061"',
        '"é: ,"',
        '"\\\\"',
    ]
)
_PROPERTIES = st.lists(st.tuples(st.sampled_from(['"a"', '"\\u0061"', '"b"', '"\\u0022"', '"\\""']),
                                 _WRITTEN_STRINGS), max_size=3)  # fmt: skip
_MEMBERS_OF_ONE = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(['"payload"', '"p\\u0061yload"']), _WRITTEN_STRINGS),
        st.tuples(st.just('"key"'), _WRITTEN_STRINGS | st.just("null")),
        st.tuples(st.just('"payload_encoding"'), st.sampled_from(['"utf-8"', '"base64"'])),
        st.tuples(st.just('"properties"'), _PROPERTIES.map(_object)),
        st.tuples(st.just('"event_time"'), st.sampled_from(
            ["null", '"2024-01-01T00:00:00Z"', '"2024-01-01T00:00:00+01:30"'])),
    ),
    max_size=5,
)  # fmt: skip
_MEMBERS_OF_BATCH = st.lists(
    st.one_of(
        st.tuples(st.just('"txn_id"'), st.sampled_from(["null", '"1:2"', '"1\\u003a2"'])),
        st.tuples(st.just('"producer_name"'), _WRITTEN_STRINGS | st.just("null")),
        st.tuples(st.just('"sequence_id"'), st.sampled_from(["null", "7", "7.0", "1e2"])),
    ),
    max_size=3,
)


@given(
    st.lists(st.tuples(_WRITTEN_STRINGS, _MEMBERS_OF_ONE), min_size=1, max_size=3),
    _MEMBERS_OF_BATCH,
)
def test_a_batch_is_refused_for_a_member_that_occurs_twice_and_for_nothing_else(
    messages: list[tuple[str, list[tuple[str, str]]]], members: list[tuple[str, str]]
) -> None:
    written = ",".join(_object([('"payload"', payload), *rest]) for payload, rest in messages)
    body = _object([*members, ('"messages"', f"[{written}]")]).encode()
    try:
        decoded = msgspec.json.decode(body, type=Produce)
    except msgspec.ValidationError:
        assume(False)
    try:
        json.loads(body, object_pairs_hook=decoding._unique)
    except ValueError as exact:
        with pytest.raises(ValueError, match=re.escape(str(exact))):
            decoding._refuse_duplicates(body, decoded)
    else:
        decoding._refuse_duplicates(body, decoded)


def test_what_is_written_without_defaults_has_none_but_what_is_left_out_then() -> None:
    """Another default than these would be written again, and hide that a member was lost."""
    lean = [kind for kind in _structs(Produce) if kind.__struct_config__.omit_defaults]
    assert set(lean) == set(_structs(Produce)) == {Produce, MessageIn}
    for kind in lean:
        needed = {f.name: _EXAMPLES[f.name] for f in msgspec.structs.fields(kind) if f.required}
        body = msgspec.json.encode(needed)
        assert msgspec.json.encode(msgspec.json.decode(body, type=kind)) == body


_EXAMPLES: dict[str, Any] = {"payload": "x", "messages": [{"payload": "x"}]}


def _structs(kind: Any) -> list[Any]:
    """A struct and those in it."""
    found = [kind] if isinstance(kind, type(msgspec.Struct)) else []
    inner = (
        [get_type_hints(kind)[name] for name in kind.__struct_fields__] if found else get_args(kind)
    )
    return found + [each for one in inner for each in _structs(one)]


PACKED_BODIES = [
    b"",
    b"\xc1",
    b"\x80",
    b"\x81",
    b"\xff" * 100,
    b"\x91" * 50_000,
    msgspec.msgpack.encode({"messages": [{"payload": "text, not bytes"}]}),
    msgspec.msgpack.encode({"messages": [{"payload": b"x", "extra": 1}]}),
    msgspec.msgpack.encode({"messages": [{"payload": b"x", "key": "a\0"}]}),
    msgspec.msgpack.encode({"messages": [{"payload": b"x"}]}) + b"\x00",
    b"\x81\xa8messages\x91\x81\xa7payload\xc6\xff\xff\xff\xff",
    b"\x81\xa8messages\xdd\xff\xff\xff\xff",
]


def test_malformed_messagepack_is_400(program: Caller, topic: str) -> None:
    for body in PACKED_BODIES:
        answer = program.send("POST", MESSAGES, body, content_type="application/msgpack")
        assert answer.is_problem(400, "InvalidRequest"), body[:80]


def _packed_map(*members: tuple[str, object], header: bytes | None = None) -> bytes:
    """A map in MessagePack as a list of members, which may have a name twice."""
    parts = [msgspec.msgpack.encode(part) for member in members for part in member]
    return (header or bytes([0x80 | len(members)])) + b"".join(parts)


_PACKED_ONE = [{"payload": b"x"}]
PACKED_TWICE = [
    (MESSAGES, [("txn_id", "1:2"), ("messages", _PACKED_ONE), ("txn_id", "1:3")], "txn_id"),
    (MESSAGES, [("txn_id", None), ("txn_id", None), ("messages", _PACKED_ONE)], "txn_id"),
    (MESSAGES, [("messages", _PACKED_ONE), ("messages", [*_PACKED_ONE, *_PACKED_ONE])], "messages"),
    (f"{_S}/receive", [("consumer", "a"), ("consumer", "b")], "consumer"),
    (f"{_S}/receive", [("consumer", "a"), ("wait_ms", 0), ("wait_ms", 0)], "wait_ms"),
    (
        f"{_S}/ack",
        [("consumer", "a"), ("message_ids", ["0:0:0:1"]), ("message_ids", ["0:0:0:0"])],
        "message_ids",
    ),
]


@pytest.mark.parametrize(("path", "members", "name"), PACKED_TWICE)
def test_a_messagepack_body_with_a_member_twice_is_refused(
    program: Caller, topic: str, path: str, members: list[tuple[str, object]], name: str
) -> None:
    wide = [b"\xde" + len(members).to_bytes(2, "big"), b"\xdf" + len(members).to_bytes(4, "big")]
    for header in (None, *wide):
        body = _packed_map(*members, header=header)
        answer = program.send("POST", path, body, content_type="application/msgpack")
        assert answer.is_problem(400, "InvalidRequest")
        assert answer.json["detail"] == (
            f"The body cannot be read: '{name}' occurs twice in one object."
        )


def test_a_messagepack_body_may_write_defaults_out(program: Caller, topic: str) -> None:
    program.put(_S)

    def answered(path: str, *members: tuple[str, object]) -> Answer:
        body = _packed_map(*members, header=b"\xde\x00\x03")
        answer = program.send("POST", path, body, content_type="application/msgpack")
        assert answer.status < 300, answer.content
        return answer

    answered(MESSAGES, ("txn_id", None), ("sequence_id", None), ("messages", _PACKED_ONE))
    members = (("wait_ms", 0), ("max_messages", 100), ("consumer", "a"))
    [message] = answered(f"{_S}/receive", *members).json["messages"]
    ids = [message["message_id"]]
    answered(f"{_S}/ack", ("ack_type", "INDIVIDUAL"), ("message_ids", ids), ("consumer", "a"))


QUERIES = [
    ("unknown=1", "unknown"),
    ("limit=0", "limit"),
    ("limit=501", "limit"),
    ("limit=x", "limit"),
    ("limit=1&limit=2", "limit"),
    ("limit=", "limit"),
    ("limit=1e3", "limit"),
    ("limit=1e1", "limit"),
    ("limit=10.0", "limit"),
    ("limit=null", "limit"),
    ("limit=%2B10", "limit"),
    ("limit=010", "limit"),
    ("coordinator_id=null", "coordinator_id"),
    ("coordinator_id=NULL", "coordinator_id"),
    ("min_age_ms=9007199254740993.0", "min_age_ms"),
    ("opened_after=null", "opened_after"),
    ("limit=%00", "limit"),
    ("owner=%00", "owner"),
    ("owner=", "owner"),
    ("owner=" + "x" * 257, "owner"),
    ("owner=%FF", "owner"),
    ("client=%EF%BF%BD&owner=a%C3", "owner"),
    ("topic=%00", "topic"),
    ("status=open", "status[0]"),
    ("status=OPEN&status=NO", "status[1]"),
    ("coordinator_id=65536", "coordinator_id"),
    ("coordinator_id=-1", "coordinator_id"),
    ("min_age_ms=9223372036854775807", "min_age_ms"),
    ("overdue=perhaps", "overdue"),
    ("opened_after=yesterday", "opened_after"),
    ("opened_after=0.5", "opened_after"),
    ("opened_before=1700000000", "opened_before"),
    ("opened_after=2024-01-01T00:00:00", "opened_after"),
    ("order=random", "order"),
    ("cursor=", "cursor"),
    ("cursor=%00", "cursor"),
]


def test_a_malformed_query_is_400_and_names_the_parameter(as_role: Callable[..., Caller]) -> None:
    viewer, wrong = as_role("viewer"), {}
    for query, field in QUERIES:
        answer = viewer.get(f"/transactions?{query}")
        if not _names(answer, field):
            wrong[query[:80]] = answer.content
    assert wrong == {}


def test_a_replacement_character_that_was_given_is_a_text_as_any(
    as_role: Callable[..., Caller],
) -> None:
    assert as_role("viewer").get("/transactions?owner=%EF%BF%BD").json["items"] == []


def test_a_refused_value_of_an_enum_is_answered_with_those_that_it_takes(
    as_role: Callable[..., Caller], topic: str
) -> None:
    root = as_role("admin", "consumer", "producer")
    subscription = f"/topics/{TOPIC}/subscriptions/s"
    bulk = {"reason": "r", "expected_count": 0}
    refused = [
        (root.put(subscription, {"type": "shared"}), "EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED"),
        (root.put(subscription, {"type": 7}), "EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED"),
        (root.put(subscription, {"initial_position": "x" * 500}), "earliest, latest"),
        (root.put(f"/topics/{TOPIC}", {"buffer": "none"}), "marker, sidecar"),
        (root.get("/transactions?status=BUSY"), "OPEN, COMMITTING, COMMITTED, ABORTING, ABORTED"),
        (root.get("/transactions?order=random"), "newest, oldest, overdue"),
        (root.get(f"{MESSAGES}?isolation=none"), "read_committed, read_uncommitted"),
        (root.send("POST", MESSAGES, _batch(b'{"payload":"a","payload_encoding":"hex"}')),
         "base64, utf-8"),
        (root.post("/transactions/bulk-abort", bulk | {"filter": {"status": ["BUSY"]}}),
         "OPEN, COMMITTING, COMMITTED, ABORTING, ABORTED"),
        (root.send("POST", MESSAGES, msgspec.msgpack.encode({"messages": [
            {"payload": b"x", "payload_encoding": "hex"}]}), content_type="application/msgpack"),
         "bytes, utf-8"),
    ]  # fmt: skip
    for answer, values in refused:
        assert answer.is_problem(400, "InvalidRequest")
        [error] = answer.json["errors"]
        assert error["message"].endswith(f"; it takes {values}"), error
        assert values in answer.json["detail"]
        assert len(error["message"]) < 300


CURSORS = (
    *("x", "e30", "W10", "WzFd", "WzEsMiwzXQ", "WyJhIiwiYiIsImMiXQ", "WyJhIl0", "W3RydWVd"),
    *("W251bGwsbnVsbCxudWxsXQ", "W3t9LFtdLG51bGxd", "WzFlNDAwXQ", "%C3%A9", "%E2%80%A8"),
    "Wzk5OTk5OTk5OTk5OTk5OTk5OTk5OTld",
)


@pytest.mark.parametrize(
    ("path", "operation"),
    [
        ("/transactions", "listTransactions"),
        ("/topics", "listTopics"),
        ("/audit", "listAudit"),
        ("/slow-transactions", "listSlowTransactions"),
    ],
)
def test_a_forged_cursor_is_400_or_an_honest_page(
    path: str, operation: str, as_role: Callable[..., Caller]
) -> None:
    admin = as_role("admin")
    for cursor in CURSORS:
        answer = admin.get(f"{path}?cursor={cursor}.{Cursors(operation)._seal({})}")
        assert answer.status == 200 or answer.is_problem(400, "InvalidRequest"), cursor


@pytest.mark.parametrize("encoding", ["utf-8", "base64"])
@pytest.mark.parametrize("text", ["", "x", "é\u2028\U0001f680", "\0", "<script>", '"\\'])
def test_every_text_comes_back_as_it_went_in(
    text: str, encoding: str, program: Caller, topic: str
) -> None:
    import base64

    payload = text if encoding == "utf-8" else base64.b64encode(text.encode()).decode()
    message = {
        "payload": payload,
        "payload_encoding": encoding,
        "key": "κ",
        "properties": {"é": "è"},
    }
    assert program.post(MESSAGES, {"messages": [message]}).status == 201
    (got,) = program.get(MESSAGES).json["messages"]
    assert (got["payload"], got["payload_encoding"]) == (text, "utf-8")
    assert (got["key"], got["properties"]) == ("κ", {"é": "è"})


def test_a_surrogate_pair_is_one_character(program: Caller, topic: str) -> None:
    assert program.send("POST", MESSAGES, _batch(b'{"payload": "\\ud83d\\ude80"}')).status == 201
    assert program.get(MESSAGES).json["messages"][0]["payload"] == "\U0001f680"


@pytest.mark.parametrize(
    "body",
    [
        {"client": "a\0b"},
        {"properties": {"a\0": "b"}},
        {"properties": {"a": "b\0"}},
        {"properties": {"a": "x" * 1001}},
        {"properties": {str(number): "" for number in range(65)}},
        {"client": "x" * 1001},
        {"timeout_ms": 0},
        {"timeout_ms": -1},
        {"timeout_ms": 10**18},
        {"timeout_ms": "60000"},
        {"coordinator_id": 70_000},
    ],
)
def test_a_transaction_with_impossible_fields_is_not_opened(body: object, program: Caller) -> None:
    assert program.post("/transactions", body).is_problem(400, "InvalidRequest")
    assert program.get("/transactions").json["items"] == []


def test_an_empty_body_counts_as_an_empty_object(program: Caller) -> None:
    assert program.send("POST", "/transactions", b"", content_type="").status == 201


def test_a_body_above_the_calls_limit_is_413_and_names_the_limit(program: Caller) -> None:
    body = json.dumps({"client": "x" * 2_000_000}).encode()
    answer = program.send("POST", "/transactions", body)
    assert answer.is_problem(413, "PayloadTooLarge")
    assert answer.json["limit_bytes"] == 1024 * 1024


def _names(answer: Answer, field: str) -> bool:
    return (
        answer.status == 400
        and answer.is_problem(400, "InvalidRequest")
        and [each["field"] for each in answer.json["errors"]] == [field]
    )


def test_a_body_that_cannot_be_read_is_told_in_words(program: Caller) -> None:
    answer = program.send("POST", "/transactions", b'{"client":')
    assert answer.is_problem(400, "InvalidRequest")
    assert answer.json["detail"].startswith("The body cannot be read")


def test_a_cursor_of_another_list_is_the_fields_fault(program: Caller) -> None:
    for path in ("/transactions", "/topics"):
        answer = program.get(f"{path}?cursor=xyz")
        assert answer.is_problem(400, "InvalidRequest")
        assert [each["field"] for each in answer.json["errors"]] == ["cursor"]


def test_a_cursor_that_can_be_read_and_is_anothers_is_the_fields_fault_too(
    as_role: Callable[..., Caller],
) -> None:
    cursor = f"{encode_cursor('not a number')}.{Cursors('listCoordinators')._seal({})}"
    answer = as_role("viewer").get(f"/coordinators?cursor={cursor}")
    assert answer.is_problem(400, "InvalidRequest")
    assert [each["field"] for each in answer.json["errors"]] == ["cursor"]
