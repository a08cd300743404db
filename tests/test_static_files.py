"""Our scripts and style sheets are collected without what is written for their readers alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from txnconsole.static_files import lean, lean_style

STATIC = Path(__file__).resolve().parent.parent / "static"
OURS = sorted([*STATIC.glob("js/**/*.js"), *STATIC.glob("css/*.css")])
_ANY_COMMENT = re.compile(r"/\*.*?\*/|^[ \t]*//[^\n]*$", re.DOTALL | re.MULTILINE)


def test_comments_with_lines_of_their_own_indentation_and_blank_lines_are_left_out() -> None:
    text = """/** What it does,
 *  in two lines. */

export function f() {

  // Why.
  const address = "https://example.com"; // here
  return `a // b ${address} /* c */`;
}
"""
    assert lean(text) == (
        "export function f() {\n"
        'const address = "https://example.com"; // here\n'
        "return `a // b ${address} /* c */`;\n"
        "}\n"
    )
    assert lean(lean(text)) == lean(text)
    assert lean("a {\n  /* why */\n  color: red; /* it is */\n}\n") == (
        "a {\ncolor: red; /* it is */\n}\n"
    )


def test_a_style_sheet_keeps_the_lines_and_spaces_that_it_needs_and_its_texts() -> None:
    text = """a,
b > c {
  grid-template-columns:
    1fr
    auto;
  content: "a: b, c {";
}

@media print and (width < 9px) {
  a :hover {
    inset: 0 auto;
  }
}
"""
    assert lean_style(text) == (
        'a,b > c{grid-template-columns:\n1fr\nauto;content:"a: b, c {";}'
        "@media print and (width < 9px){a :hover{inset:0 auto;}}"
    )


@pytest.mark.parametrize("file", OURS, ids=lambda file: file.relative_to(STATIC).as_posix())
def test_no_text_of_ours_goes_over_several_lines(file: Path) -> None:
    """Else what looks like a comment or an indentation could be a part of it."""
    code = _ANY_COMMENT.sub("", file.read_text())
    for line in code.splitlines():
        assert line.count("`") % 2 == 0, line
        assert not line.endswith("\\"), line


def test_what_is_left_out_is_a_good_part_of_it() -> None:
    whole = sum(len(file.read_text()) for file in OURS)
    assert sum(len(lean(file.read_text())) for file in OURS) < 0.9 * whole
