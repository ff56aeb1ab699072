"""Learning rates that change from step to step: nodes, computed in float64 from a node that counts steps.

    step = ag.global_step()
    optimizer = ag.optimizers.Adam(ag.schedules.exponential_decay(step, 0.1, 1000, 0.5))
    train = optimizer.minimize(loss, step=step)

An optimizer also takes a function of its own count, which it calls in each graph that it is used in:
`Adam(lambda step: ag.schedules.cosine_decay(step, 1e-3, 10_000))`. Steps are counted from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf, pi
from typing import TYPE_CHECKING

import numpy as np

from . import ops

if TYPE_CHECKING:
    from ._graph.node import Node

__all__ = ["cosine_decay", "exponential_decay", "piecewise_constant", "warm_up"]


def exponential_decay(
    step: Node, rate: float, decay_steps: float, decay_rate: float, *, staircase: bool = False
) -> Node:
    """`rate` at step 0, multiplied by `decay_rate` every `decay_steps` steps: smoothly, or at once with `staircase`.

    Raises:
        ValueError: `decay_steps` is not positive, or `decay_rate` is negative.
    """
    if not decay_rate >= 0:
        raise ValueError(f"decay_rate={decay_rate!r}: give a number that is not negative")
    done = _float(step) / _positive("decay_steps", decay_steps)
    return rate * decay_rate ** (ops.floor(done) if staircase else done)


def cosine_decay(step: Node, rate: float, decay_steps: float, *, floor: float = 0.0) -> Node:
    """From `rate` at step 0 down to `floor` at `decay_steps`, along half a cosine; it stays there.

    Loshchilov and Hutter, "SGDR: Stochastic gradient descent with warm restarts", arXiv:1608.03983, equation 5.

    Raises:
        ValueError: `decay_steps` is not positive.
    """
    done = ops.minimum(_float(step) / _positive("decay_steps", decay_steps), 1.0)
    return floor + (rate - floor) * 0.5 * (1.0 + ops.cos(pi * done))


def piecewise_constant(step: Node, boundaries: Sequence[float], rates: Sequence[float]) -> Node:
    """The first of `rates` up to and at the first boundary, then the second up to the second one, and so on.

    Raises:
        ValueError: the boundaries do not increase, or `rates` does not have one more than they are.
    """
    if len(rates) != len(boundaries) + 1 or not all(a < b for a, b in pairwise([-inf, *boundaries])):
        raise ValueError(
            f"piecewise_constant: boundaries {boundaries!r} and rates {rates!r}\n"
            "  give boundaries that increase, and one more rate than there are boundaries"
        )
    passed = ops.sum(_float(step) > np.array(boundaries, float))
    return ops.take(np.array(rates, float), passed)


def warm_up(step: Node, rate: float | Node, steps: float, *, start: float = 0.0) -> Node:
    """From `start` at step 0 in a straight line up to `rate` at step `steps`, and `rate` from there on.

    `rate` may be the node of another schedule.
    Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1 hour", arXiv:1706.02677, section 2.2.

    Raises:
        ValueError: `steps` is not positive.
    """
    done = _float(step) / _positive("steps", steps)
    return ops.where(done < 1.0, start + (rate - start) * done, rate)


def _float(step: Node) -> Node:
    return ops.astype(step, ops.float64)


def _positive(name: str, value: float) -> float:
    if not value > 0:
        raise ValueError(f"{name}={value!r}: give a positive number of steps")
    return value
