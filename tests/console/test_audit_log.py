from __future__ import annotations

import pytest

from txnconsole.console.audit_log import AuditForm


@pytest.mark.parametrize("written", ["transaction:3:2", "3:2", "(844424930131968,2)"])
def test_an_object_is_filtered_by_in_any_spelling(written: str) -> None:
    form = AuditForm({"object": written})
    assert form.is_valid()
    assert form.wanted().object == "transaction:3:2"
