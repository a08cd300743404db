"""The operating system's user for PostgreSQL, which refuses to run as root.

A plain user runs it as themselves. Root hands it to the user ``postgres``, or ``nobody`` where
there is none; no user is made. When that user cannot reach the files (a checkout in root's home),
the server keeps one capability to read past directories: nothing on the disk changes its mode.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from txnconsole.local.errors import CannotStart

#: From none to the widest that may be needed.
_CAPABILITIES = (None, "dac_read_search", "dac_override")


@dataclass(frozen=True, slots=True)
class ServerUser:
    """Who the server runs as; None means as this process."""

    account: pwd.struct_passwd | None

    @classmethod
    def for_directory(cls, directory: Path) -> ServerUser:
        """The owner of an existing data directory, else the first account that fits."""
        if os.geteuid() != 0:
            return cls(None)
        if directory.exists() and directory.stat().st_uid != 0:
            return cls(pwd.getpwuid(directory.stat().st_uid))
        known = {account.pw_name: account for account in pwd.getpwall()}
        for name in ("postgres", "nobody"):
            if name in known:
                return cls(known[name])
        raise CannotStart("PostgreSQL cannot run as root, and there is no user postgres or nobody.")

    def own(self, path: Path) -> None:
        """Give a file or directory to this user."""
        if self.account is not None:
            os.chown(path, self.account.pw_uid, self.account.pw_gid)

    def command(
        self,
        command: Sequence[str],
        *,
        reaching: Path,
        death_signal: signal.Signals = signal.SIGKILL,
    ) -> list[str]:
        """The command that runs ``command`` as this user, able to write to ``reaching``."""
        if self.account is None:
            return list(command)
        if shutil.which("setpriv") is None:
            raise CannotStart(
                "PostgreSQL cannot run as root: run as a plain user, or install util-linux."
            )
        for capability in _CAPABILITIES:
            prefix = _setpriv(self.account, capability, death_signal)
            test = ["sh", "-c", 'test -x "$0" && test -w "$1" && cd "$1"', command[0]]
            result = subprocess.run(
                [*prefix, *test, str(reaching)], check=False, capture_output=True, cwd="/"
            )
            if result.returncode == 0:
                return [*prefix, *command]
        raise CannotStart(
            f"PostgreSQL cannot run as root, and the user {self.account.pw_name} cannot reach "
            f"{reaching}: set TXNCONSOLE_DATA to a directory that others may enter."
        )


def _setpriv(
    account: pwd.struct_passwd, capability: str | None, death_signal: signal.Signals
) -> list[str]:
    kept = [f"--inh-caps=+{capability}", f"--ambient-caps=+{capability}"] if capability else []
    return [
        "setpriv",
        f"--reuid={account.pw_uid}",
        f"--regid={account.pw_gid}",
        "--clear-groups",
        *kept,
        # A change of user clears the signal that process.spawn asked for.
        f"--pdeathsig={death_signal.name.removeprefix('SIG')}",
        "--",
    ]
