from __future__ import annotations

from txnconsole.console.payload import preview


def test_text_is_shown_as_it_is() -> None:
    shown = preview("grün <b>".encode())
    assert (shown.text, shown.is_text, shown.cut) == ("grün <b>", True, False)


def test_a_character_split_by_the_cut_is_left_out() -> None:
    shown = preview(b"x" * 4095 + "ü".encode() + b"rest")
    assert (shown.text, shown.is_text, shown.cut) == ("x" * 4095, True, True)


def test_bytes_that_are_no_text_are_shown_as_digits() -> None:
    shown = preview(b"\xff\x00\x10")
    assert (shown.text, shown.is_text, shown.cut) == ("ff 00 10", False, False)


def test_broken_text_of_any_length_is_digits() -> None:
    assert not preview(b"abc\xff" + b"x" * 10_000).is_text


def test_nothing_is_empty_text() -> None:
    assert preview(b"").text == ""
