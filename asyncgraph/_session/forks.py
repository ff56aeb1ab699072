"""Whether this process is a child of the one that opened a session. Threads do not survive a fork."""

from __future__ import annotations

import os
import sys
from typing import Final, final


@final
class _Generation:
    """How many forks lie between this process and the one that imported the package."""

    number = 0


def _forked() -> None:
    _Generation.number += 1


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forked)

generation: Final = _Generation
"""Compared, not called: every run asks, and `os.getpid` is a system call."""
