"""Callers of Pulsar's paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.model.txn_id import TxnID
from tests.api.conftest import Caller, as_role, finalize, program, topic

__all__ = ["as_role", "finalize", "program", "topic"]


def bits(txn_id: str) -> str:
    """A transaction's id as two path segments."""
    parsed = TxnID.parse(txn_id)
    return f"{parsed.most_bits}/{parsed.least_bits}"


class PulsarTool:
    """A tool that was written for Pulsar."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    def get(self, path: str, status: int = 200) -> Any:
        answer = self.caller.send("GET", path, base="/admin/v3/transactions/")
        assert answer.status == status, answer.content
        return answer.json

    def post(self, path: str, body: bytes = b"", status: int = 204) -> Any:
        answer = self.caller.send("POST", path, body, base="/admin/v3/transactions/")
        assert answer.status == status, answer.content
        return answer.json if answer.content else None


@pytest.fixture
def tool(as_role: Callable[..., Caller]) -> PulsarTool:
    return PulsarTool(as_role("admin", user="pulsar-admin"))
