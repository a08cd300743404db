"""A job that does what its parameter says, without any Spark, and a place for its log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings

from txnconsole.audit.recording import Actor
from txnconsole.runs import kinds, lifecycle
from txnconsole.runs.kinds import Kind, Parameter
from txnconsole.runs.models import PipelineRun, RunOrigin

ANN = Actor("ann")


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The kind ``scripted``, run as ``tests/runs/scripted.py``."""
    form = re.compile(r"[a-z]+")
    parameters = (
        Parameter("do", "what to do", form, required=True),
        Parameter("topic", "a topic", topics=True),
    )
    kind = Kind("scripted", "tests.runs.scripted", "Does what it is told.", parameters)
    monkeypatch.setattr(kinds, "KINDS", {"scripted": kind} | dict(kinds.KINDS))
    monkeypatch.setattr(settings, "DATA_DIR", tmp_path)


def started(do: str, **parameters: str) -> PipelineRun:
    return lifecycle.start("scripted", {"do": do} | parameters, actor=ANN, origin=RunOrigin.COMMAND)
