"""Certificates that nobody else trusts."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import pytest


def self_signed(directory: Path) -> Path:
    """A certificate of this machine that signs itself, with its key, in a file of the directory;
    the test is skipped where nothing makes one."""
    if which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    made = directory / "localhost.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command = ["openssl", "req", "-x509", "-days", "2", *kind, *subject]
    command += ["-keyout", str(made), "-out", str(made.with_suffix(".crt"))]
    subprocess.run(command, check=True, capture_output=True)
    made.write_text(made.read_text() + made.with_suffix(".crt").read_text())
    return made
