from __future__ import annotations

import sys

import pytest

from txnconsole.client.txnctl.app import main


def test_the_shell_completes_its_name_however_it_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/txnctl/__main__.py"])
    monkeypatch.setenv("_TXNCTL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "txnctl trans")
    monkeypatch.setenv("COMP_CWORD", "1")
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    assert capsys.readouterr().out.split() == ["transactions"]
