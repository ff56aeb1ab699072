"""Reverse-mode differentiation: nodes that compute gradients, built from the nodes that computed the values.

tables      what a row of the table GRADIENTS is; user ops have their own table
backward    the pass: one sweep down to what is differentiated by, one back up the same nodes
elementwise, reductions, linalg, manipulation, indexing, fused, state, control
            the rows, by chapter of the vocabulary
fitting     the shapes that gradients have to have

An op is differentiable if it has a row, and each has one: of those without a derivative it says that nothing is
reached. A rule builds nodes of the vocabulary, so that gradients can be differentiated again, and run like everything
else: pruned, merged, placed. It builds the gradient of one operand with the shape that the operand has in the run. The
dtype is seen to by the pass.
"""

from __future__ import annotations

from . import control as control
from . import elementwise as elementwise
from . import fused as fused
from . import indexing as indexing
from . import linalg as linalg
from . import manipulation as manipulation
from . import reductions as reductions
from . import state as state
