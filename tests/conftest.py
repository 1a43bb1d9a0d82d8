"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell's background job ignores SIGINT, and so would every child of ours: tests that send it need it as usual.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
