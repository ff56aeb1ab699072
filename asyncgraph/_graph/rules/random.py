"""Draws of random numbers. They have no rows in SPECS, as their functions say what they are: only numbers go in."""

from __future__ import annotations

from ..op import RANDOM_OPS
from .rows import never_rowwise
from .tables import COSTS, ROWS, Cost

for _op in RANDOM_OPS:
    # A run draws its own, and not a part of what several together would draw.
    ROWS[_op.name] = never_rowwise
    COSTS[_op.name] = Cost.MATH
