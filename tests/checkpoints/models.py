"""A small model, and what is looked at of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import asyncgraph as ag


class Model:
    """A graph of three variables that a run of `update` adds one to, and of their initial values."""

    def __init__(self) -> None:
        with ag.Graph() as self.graph:
            self.w = ag.variable(np.zeros((2, 3), "float32"), name="layer/w")
            self.b = ag.variable(np.zeros((), "int16"), name="b")
            self.step = ag.global_step()
            self.update = ag.group(*[one.assign_add(1) for one in (self.w, self.b, self.step)])
        self.all = [self.w, self.b, self.step]


def versions(arrays: Any) -> set[float]:
    """The numbers in some arrays: one, if all are of one version."""
    return {float(number) for array in arrays for number in np.ravel(array)}


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
