"""What each page costs: time, questions, bytes; asked as an administrator's browser asks."""

from __future__ import annotations

import gzip
import re
import time
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from benchmarks.report import Row, at_most
from tests.console.browser.pages import PAGES, PARTS
from tests.console.questions import Questions

_MILLISECONDS, _QUESTIONS, _KILOBYTES = 100, 12, 250
_ROUNDS = 5
_PLOTS = "plotly"
#: Pages with a question that finds much, besides the table of pages.
_ASKED = {
    "transactions, aborted": "/transactions?q=state:aborted",
    "transactions, by owner": "/transactions?q=owner:owner-7",
    "transactions, by topic": "/transactions?q=topic:{topic}",
    "transactions, none found": "/transactions?q=topic:public/default/none+age:>1h",
    "search for a name": "/search?q=t-09",
    "log at an offset": "/topics/{topic}/partitions/0/log?at=1",
    "log, a place that is none": "/topics/{topic}/partitions/0/log?at=nowhere",
}
_ASSET = re.compile(r'(?:src|href)="/static/([^"#]+)')


def rows(names: dict[str, str], wanted: list[str]) -> list[Row]:
    """Milliseconds and questions of each page, and the largest page; ``wanted`` names some."""
    pages = {row.name: row.address for row in PAGES if row.status == 200} | _ASKED | PARTS
    client = Client(headers={"Accept-Encoding": "gzip"}, SERVER_NAME="localhost")
    client.force_login(User.objects.get(username="admin"))
    found, sizes = [], {}
    with pytest.MonkeyPatch.context() as patch:
        questions = Questions(patch)
        for name, address in pages.items():
            if wanted and name not in wanted:
                continue
            answer, milliseconds, asked = _measured(client, questions, address.format(**names))
            found.append(at_most(f"{name}: ms", milliseconds, _MILLISECONDS))
            found.append(at_most(f"{name}: questions", asked, _QUESTIONS))
            sizes[name] = (len(answer.content) + sum(map(_size, _assets(answer)))) / 1000
    name, size = max(sizes.items(), key=lambda each: each[1])
    found.append(at_most(f"kB of {name}, the largest, without the plot library", size, _KILOBYTES))
    return found


def _measured(
    client: Client, questions: Questions, address: str
) -> tuple[HttpResponse, float, float]:
    """The answer, the fastest of some (what else the machine does is not the page's), and how many
    questions one asks of databases."""
    answer = _asked(client, address)
    before = len(questions.asked)
    took = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        answer = _asked(client, address)
        took.append((time.perf_counter() - started) * 1000)
    return answer, min(took), (len(questions.asked) - before) / _ROUNDS


def _asked(client: Client, address: str) -> HttpResponse:
    script = {"HX-Request": "true"} if "?part=" in address else {}
    answer = client.get(address, headers=script)
    if answer.status_code not in (200, 400):
        raise RuntimeError(f"{address} answers {answer.status_code}")
    return answer  # type: ignore[return-value]


def _assets(answer: HttpResponse) -> set[str]:
    text = answer.content
    if answer.headers.get("Content-Encoding") == "gzip":
        text = gzip.decompress(text)
    return {name for name in _ASSET.findall(text.decode()) if _PLOTS not in name}


@cache
def _size(name: str) -> int:
    """As it is sent: compressed when it was collected, unless that gains nothing."""
    file = Path(settings.STATIC_ROOT) / name
    compressed = file.with_name(f"{file.name}.gz")
    return (compressed if compressed.exists() else file).stat().st_size
