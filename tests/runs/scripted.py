"""A stand-in for a Spark job: tells its events and ends as it is told (no test by itself)."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from typing import Any


def tell(facts: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--do")
    parser.add_argument("--topic")
    options = parser.parse_args()
    sys.stderr.write("a line of the log\n")
    tell({"stage": "reading", "done": 1, "total": 3})
    tell({"figures": {"rows_in": 10}})
    tell({"figures": {"rows_out": 4}})
    match options.do:
        case "finish":
            sys.stdout.write("noise that is no event\n")
            secrets = {"DATABASE_URL", "BROKER_DATABASE_URLS", "SECRET_KEY"} & os.environ.keys()
            token = bool(os.environ["TXNCONSOLE_TOKEN"])
            tell({"result": {"token": token, "secrets": sorted(secrets)}})
        case "babble":
            for line in (
                '{"stage": 7, "done": "many", "total": [2]}',
                '{"stage": "counting", "done": 1e99, "total": -3}',
                '{"figures": "none"}',
                '{"figures": {"ratio": NaN}}',
                '{"figures": {"nul": "a\\u0000b\\ud800"}, "error": {"no": "text"}}',
                '{"result": "nothing"}',
                "[" * 100_000,
                "[1]",
            ):
                sys.stdout.write(line + "\n")
            sys.stdout.buffer.write(b"\xff\xfe\n")
            tell({"figures": {"rows_out": 5}})
        case "find":
            tell({"result": {"holds": False}})
            return 3
        case "fail":
            tell({"error": "the disk is full"})
            return 1
        case "die":
            tell({"figures": {"scratch": tempfile.mkdtemp()}})
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            tell({"error": "the JVM has gone"})
            tell({"figures": {"child": child.pid, "rows_in": 11}})
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
