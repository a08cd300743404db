"""``python -m txnconsole.txnctl``: the command line, which Ctrl-C ends without a word while it is
still being read in."""

from __future__ import annotations

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from txnconsole.client.txnctl.app import main  # It imports for half a second.

    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
