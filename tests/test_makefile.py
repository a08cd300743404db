"""The Makefile where a checkout may stand; its programs here write down how they are called."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def script(file: Path, *lines: str) -> None:
    file.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    file.chmod(0o755)


def test_setup_installs_into_a_checkout_whose_path_has_spaces(tmp_path: Path) -> None:
    checkout = tmp_path / "my projects" / "txn console"
    programs, packages = checkout / ".venv" / "bin", checkout / ".venv" / "packages"
    for folder in (programs, packages):
        folder.mkdir(parents=True)
    for name in ("Makefile", "requirements.lock"):
        shutil.copy(ROOT / name, checkout)
    script(programs / "uv", 'printf "%s\\n" "$VIRTUAL_ENV" "$*" >> asked')
    script(programs / "python", f'echo "{packages}"')
    command = ["make", "setup", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=checkout, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    *_, environment, call = (checkout / "asked").read_text().splitlines()
    assert environment == str(checkout / ".venv")
    assert call.startswith("pip sync ")
    assert (packages / "txnconsole.pth").read_text() == f"{checkout}\n"
    assert f'"{programs / "python"}"' in (programs / "txnctl").read_text()


def test_what_has_both_processors_to_itself_is_looked_for_wherever_it_is() -> None:
    [named] = re.findall(r"^WHOLE_IN := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    marked = re.compile(r"\bmark\.(spark|acceptance)\b")
    tests = [
        path for path in (ROOT / "tests").rglob("test_*.py") if marked.search(path.read_text())
    ]
    found = {"/".join(path.relative_to(ROOT).parts[:2]) for path in tests}
    assert found == {*named.split()}
