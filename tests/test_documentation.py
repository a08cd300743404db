"""What README and docs/ name exists: links, files, make targets, settings, and names in code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
FOLDERS = ("engine", "txnconsole", "tests", "benchmarks", "templates", "static", "docs")
SOURCES = [
    file
    for file in (*ROOT.glob("*"), *(each for name in FOLDERS for each in (ROOT / name).rglob("*")))
    if file.suffix in {"", ".html", ".js", ".json", ".py", ".sql", ".toml", ".yml"}
    and file.is_file()
    and "vendor" not in file.parts
]
#: Made by a command that the page tells, or the reader's own.
MADE = {"build/openapi.json", "build/soak.json", "login.json", "tour.py"}
#: PostgreSQL's and OpenTelemetry's.
FOREIGN = {
    *("pg_basebackup", "pg_dumpall", "parentbased_traceidratio", "ssl_ca_certs", "max_fails"),
    *("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_TRACES_SAMPLER_ARG"),
}

_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
_FILE = re.compile(
    r"(?<![\w/.$<{*-])(?:[\w-]+/)*[\w-]+\.(?:py|sql|jso?n?|yml|md|html|toml|lock)\b(?!\.\w)"
)
_NAME = re.compile(r"[A-Za-z]\w*(?:_\w+|[a-z][A-Z]\w*)…?")
_SETTING = re.compile(r"\benv\.\w+\(\s*\"(\w+)\"")


def spans() -> Iterator[tuple[str, str]]:
    """What stands in backticks within the text of the pages, but those that tell of other days."""
    for page in PAGES:
        if page.name not in ("next.md", "measurements.md"):
            text = _FENCED.sub("", page.read_text())
            yield from ((page.name, span) for span in re.findall(r"`([^`]+)`", text))


def test_links_lead_somewhere() -> None:
    dead = []
    for page in (*PAGES, *DECISIONS):
        for file, anchor in _LINK.findall(page.read_text()):
            target = page.parent / file if file else page
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE) if anchor else []
            anchors = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}
            if not target.exists() or (anchor and anchor not in anchors):
                dead.append((page.name, file, anchor))
    assert dead == []


def test_files_that_pages_name_exist() -> None:
    there = [f"/{file.relative_to(ROOT)}" for file in (*SOURCES, *PAGES, *DECISIONS)]
    there += [f"/{name}" for name in (*MADE, "requirements.lock", "static/vendor/VENDOR.md")]
    missing = [
        (page, file)
        for page, span in spans()
        for file in _FILE.findall(span)
        if not file.startswith("design/") and not any(name.endswith(f"/{file}") for name in there)
    ]
    assert missing == []


def test_names_that_pages_tell_stand_in_the_source() -> None:
    words = {word for file in SOURCES for word in re.findall(r"[A-Za-z]\w*", file.read_text())}
    words |= FOREIGN | {file.stem for file in SOURCES}
    unknown = [
        (page, name)
        for page, span in spans()
        for name in _NAME.findall(span)
        if not any(
            form in words or ("…" in name and any(word.startswith(form) for word in words))
            for form in (name.rstrip("…"), name.removeprefix("txnconsole_").removesuffix("_total"))
        )
    ]
    assert unknown == []


def test_make_targets_that_pages_tell_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    told = {
        target
        for _, span in spans()
        for line in re.findall(r"^make ([a-z -]+)", span)
        for target in line.split()
    }
    assert told
    assert told - targets == set()


def test_every_setting_is_told_on_a_page() -> None:
    read = _SETTING.findall((ROOT / "txnconsole" / "settings.py").read_text())
    text = "".join(page.read_text() for page in PAGES)
    assert read
    assert [name for name in read if not re.search(rf"\b{name}\b", text)] == []


def test_pages_and_decisions_that_the_source_cites_exist() -> None:
    cited = {
        (str(file.relative_to(ROOT)), name)
        for file in SOURCES
        for name in re.findall(r"\bdocs/(?:decisions/\d{4}|[\w/-]+\.md)", file.read_text())
    }
    assert cited
    assert [each for each in sorted(cited) if not [*ROOT.glob(f"{each[1]}*")]] == []


def test_the_map_has_every_package() -> None:
    text = (ROOT / "README.md").read_text()
    packages = [file.parent.name for file in (ROOT / "txnconsole").glob("*/__init__.py")]
    assert packages
    assert [name for name in packages if f"`txnconsole/{name}/`" not in text] == []
