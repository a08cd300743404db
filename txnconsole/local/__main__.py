"""``python -m txnconsole.local run|serve``: the product on one machine, until Ctrl-C."""

from __future__ import annotations

import argparse
import sys

from txnconsole.local.errors import CannotStart
from txnconsole.local.supervisor import supervise


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m txnconsole.local", description=__doc__)
    parser.add_argument("mode", choices=["run", "serve"], help="run adds the demo")
    mode: str = parser.parse_args().mode
    try:
        supervise(demo=mode == "run")
    except CannotStart as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
