"""What all tests need."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Let what the tests start be interrupted: a shell has its background jobs, and their children, ignore SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
