"""The line of the user's program that built a node.

Only the code object and the instruction are kept: looking up a line number costs more than building
the node, and is needed for errors alone.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import CodeType
from typing import Final, NamedTuple, final

_PACKAGE: Final = str(Path(__file__).resolve().parent.parent) + os.sep
# One entry for each source file that builds nodes: whether it is one of this package's own.
_own: dict[str, bool] = {}


@final
class Site(NamedTuple):
    """Where a node was built."""

    filename: str
    lineno: int
    function: str

    def __str__(self) -> str:
        return f"{self.filename}:{self.lineno}, in {self.function}"


RawSite = tuple[CodeType, int] | Site | None
"""What a node keeps: the code and the instruction that built it, or a site read from a pickle."""


def calling_site() -> RawSite:
    """The innermost caller outside this package."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # inspect.currentframe is this, behind a check
    while True:
        filename = frame.f_code.co_filename
        own = _own.get(filename)
        if own is None:
            own = _own[filename] = filename.startswith(_PACKAGE)
        if not own:
            return frame.f_code, frame.f_lasti
        if frame.f_back is None:
            return None
        frame = frame.f_back


def resolve_site(raw: RawSite) -> Site | None:
    """The file, line and function of what `calling_site` returned."""
    if raw is None or isinstance(raw, Site):
        return raw
    code, instruction = raw
    lineno = next((line for start, end, line in code.co_lines() if start <= instruction < end), None)
    return Site(code.co_filename, lineno or code.co_firstlineno, code.co_qualname)
