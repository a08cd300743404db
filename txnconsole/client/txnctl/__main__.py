"""``python -m txnconsole.client.txnctl``."""

from __future__ import annotations

from txnconsole.client.txnctl.app import main

if __name__ == "__main__":
    main()
