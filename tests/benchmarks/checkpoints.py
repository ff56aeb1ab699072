"""What it takes to save and restore a gigabyte, against the safetensors package.

The package only writes; a checkpoint is on the disk when `save` returns, and replaces the old one whole. Compared
alike is therefore the package's file, synced and renamed as ours is; and, for what that costs, the package alone.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

import asyncgraph as ag

from .measure import Ratio, compare

_BYTES = 1_000_000_000
_VARIABLES = 16


async def rows() -> list[list[str]]:
    with ag.Graph() as graph:
        for number in range(_VARIABLES):
            ag.variable(np.full(_BYTES // _VARIABLES // 8, float(number)), name=f"v{number}")
    table = [["1 GB in 16 variables", "ratio", "quartiles", "ours", "safetensors", "ours"]]
    with tempfile.TemporaryDirectory(dir=".") as folder:  # Not in a /tmp that may be memory.
        ours, theirs = Path(folder, "ours"), Path(folder, "theirs")
        async with ag.Session(graph) as session:
            await session.save(ours)
            arrays = load_file(ours)

            def save_synced() -> None:
                beside = Path(folder, "beside")
                save_file(arrays, beside)
                _sync(beside)
                beside.replace(theirs)
                _sync(Path(folder))

            async def row(name: str, call: Callable[[], Awaitable[object]], their: Callable[[], object]) -> None:
                table.append(_row(name, await compare(call, their, turns=7, turn_s=0)))

            await row("save, against save_file, synced and renamed", lambda: session.save(ours), save_synced)
            await row("save, against save_file alone", lambda: session.save(ours), lambda: save_file(arrays, theirs))
            await row("restore, against load_file", lambda: session.restore(ours), lambda: load_file(theirs))
    return table


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _row(name: str, found: Ratio) -> list[str]:
    return [
        name,
        f"{found.ratio:.2f}",
        f"{found.low:.2f}..{found.high:.2f}",
        f"{found.ours_s:.2f} s",
        f"{found.theirs_s:.2f} s",
        f"{_BYTES / found.ours_s / 1e9:.2f} GB/s",
    ]
