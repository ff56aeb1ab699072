"""Prints the table. `--section nodes small loops training build lag checkpoints` runs some of it."""

from __future__ import annotations

import argparse
import asyncio
import platform
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np

from . import build, checkpoints, lag, loops, nodes, small, training
from .measure import ForeignLoad


@dataclass(frozen=True)
class _Section:
    title: str
    rows: Callable[[], Awaitable[list[list[str]]]]


SECTIONS = {
    "nodes": _Section("node overhead, warm, against straight-line NumPy", nodes.rows),
    "small": _Section("one op on five float64, warm, against one np.square", small.rows),
    "loops": _Section("an iteration of while_loop, warm, over the same NumPy calls in Python's", loops.rows),
    "training": _Section("a step of training, warm, against the same step in NumPy", training.rows),
    "build": _Section("from nothing to the first result", build.rows),
    "lag": _Section("the event loop while kernels run", lag.rows),
    "checkpoints": _Section("a gigabyte to the disk and back", checkpoints.rows),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--section", nargs="*", choices=list(SECTIONS), default=list(SECTIONS))
    chosen = parser.parse_args().section
    print(f"Python {sys.version.split()[0]}, NumPy {np.__version__}, {platform.machine()}")
    for name in chosen:
        section = SECTIONS[name]
        with ForeignLoad() as load:
            rows = asyncio.run(_rows(section))
        print(f"\n{section.title}  (foreign load {load.cores:.2f} cores)")
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


async def _rows(section: _Section) -> list[list[str]]:
    return await section.rows()


if __name__ == "__main__":
    main()
