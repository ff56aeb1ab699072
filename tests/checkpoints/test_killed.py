"""Programs that are killed while they save, at any moment: what they leave is restored, and is whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = int(os.environ.get("ASYNCGRAPH_KILLS", "20"))
"""More take long: 200 of them 15 s."""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.timeout(60 + KILLS)
def test_a_program_that_is_killed_while_it_saves_leaves_what_it_saved_last_or_next(
    tmp_path: Path,
) -> None:
    # NumPy's BLAS may have threads, which do nothing here: Python 3.12 warns of forks then.
    warnings = ["-W", "error", "-W", "ignore:This process:DeprecationWarning"]
    program = [sys.executable, *warnings, str(Path(__file__).with_name("killed.py")), str(tmp_path), str(KILLS)]
    found = subprocess.run(program, capture_output=True, text=True, check=False)
    assert found.stderr == ""
    lines = found.stdout.splitlines()
    assert len(lines) == KILLS
    for line in lines:
        told, numbers = line.split(maxsplit=1)
        assert numbers.startswith((f"[{float(told)}]", f"[{float(told) + 1}]")), line
    # Or the kills would prove nothing.
    assert any(line.endswith("within a write") for line in lines)
