"""How ``collectstatic`` keeps the console's files: without what is written for their readers alone.

There is no build step: the files that people read are the files that are served. But a fifth of the
scripts and style sheets is comments and indentation, and all of them together may have 40 kB
(design/console.md §7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from whitenoise.storage import CompressedManifestStaticFilesStorage

#: A comment with lines of its own. Others stay: to tell them from text takes a parser.
_COMMENT = re.compile(r"^[ \t]*(?:/\*.*?\*/[ \t]*|//[^\n]*)\n", re.DOTALL | re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
_BLANK = re.compile(r"^\n+", re.MULTILINE)
#: Where a style sheet's line may end, and need not.
_BREAK = re.compile(r"(?<=[{};,])\n")
#: A text in a style sheet, or a space that it does not need.
_TEXT_OR_SPACE = re.compile(r'("[^"]*")|(?<=[:,]) | (?=\{)')
_OWN = ("css/", "js/")


def lean(text: str) -> str:
    """A script or a style sheet without comments that have lines of their own, without indentation
    and blank lines. No text in it goes over several lines (a test looks at all of them)."""
    return _BLANK.sub("", _INDENT.sub("", _COMMENT.sub("", text)))


def lean_style(text: str) -> str:
    """A lean style sheet, most of whose lines are joined, without the spaces that it does not
    need."""
    return _TEXT_OR_SPACE.sub(lambda found: found[1] or "", _BREAK.sub("", lean(text)))


class LeanStaticFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # untyped
    """Names files by their content and compresses them; the console's own are made lean first."""

    def post_process(
        self, paths: dict[str, Any], dry_run: bool = False, **options: Any
    ) -> Iterator[Any]:
        """Make the console's collected files lean, then do as Django and whitenoise do."""
        if not dry_run:
            for name in paths:
                if name.startswith(_OWN):
                    file = Path(self.path(name))
                    made = lean_style if file.suffix == ".css" else lean
                    file.write_text(made(file.read_text()))
                    paths[name] = (self, name)
        yield from super().post_process(paths, dry_run, **options)
