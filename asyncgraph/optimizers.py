"""Optimizers: nodes that change variables so that a loss becomes smaller.

    train = ag.optimizers.Adam(1e-3).minimize(loss)
    await session.run([loss, train], {x: images, y: labels})

Each run that fetches `train` makes one step, in one transaction: gradients are those of the variables as they were when
the run started, and all variables change together at its end, or none does. So nobody reads half a step, and no step
is lost, however many coroutines train and read.

What an optimizer remembers of a variable, such as a mean of its gradients, is in *slots*: variables that are not
trainable, named `<variable>/<optimizer>/<slot>`, on the device of the variable, with its dtype. An optimizer makes
them when it is first applied to the variable, and finds them again by the variable itself. So the order in which
gradients are given does not matter, and an optimizer that is applied several times, to several losses say, goes on
with the same slots. A run that makes several steps of one variable makes them one after the other, in the order in
which they were built, along gradients that are of where the run started.

What a variable is used for twice has one gradient, the sum (see `gradients`): a row that an embedding takes twice moves
once, by a step along the sum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from math import inf, nan
from numbers import Real
from typing import cast, final

import numpy as np

from . import ops
from ._graph.building import group, variable
from ._graph.graph import Graph
from ._graph.node import Node
from ._graph.op import Params
from ._graph.scopes import control_dependencies, device, name_scope
from ._graph.variable import Variable, may_be
from .errors import GradientError, SpecError, SpecTypeError
from .gradients import gradients
from .ops._build import build_several

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Momentum", "Optimizer", "Pair", "Rate", "clip_by_global_norm"]

Rate = float | Node
"""A learning rate: a number, or a node of rank 0 and of any real dtype."""

Pair = tuple[Node, Variable]
"""A gradient, and the variable that it is of."""


@dataclass(eq=False)
class Optimizer(ABC):
    """How variables change by their gradients. One object may be used in any number of graphs.

    An optimizer of your own is a dataclass that is a subclass, and defines `update`.

    Fields:
        learning_rate: how far a step goes: a number, a node (see `schedules`), or a function that makes one of
            the variable `iterations`.
        name: what its nodes and slots have in their names; by default the name of the class.

    Raises:
        ValueError: a number is out of its bounds.
        SpecError, SpecTypeError: a node is no learning rate, but an array, or not of real numbers.
    """

    learning_rate: Rate | Callable[[Variable], Rate]
    _: KW_ONLY
    name: str = ""
    _slots: dict[tuple[Variable, str], Variable] = field(
        default_factory=dict[tuple[Variable, str], Variable], init=False, repr=False
    )
    _counts: dict[Graph, Variable] = field(default_factory=dict[Graph, Variable], init=False, repr=False)

    def __post_init__(self) -> None:
        self.name = self.name or type(self).__name__
        if not callable(self.learning_rate):
            self.learning_rate = _checked_rate(self.learning_rate)

    def minimize(
        self,
        loss: Node,
        variables: Iterable[Variable] | None = None,
        step: Variable | None = None,
        name: str | None = None,
    ) -> Node:
        """A node without a value that makes one step: `compute_gradients`, and then `apply_gradients`."""
        return self.apply_gradients(self.compute_gradients(loss, variables), step, name)

    def compute_gradients(self, loss: Node, variables: Iterable[Variable] | None = None) -> list[Pair]:
        """The gradient of `loss` by each of the variables, each with its variable.

        Args:
            loss: one real number.
            variables: what it is differentiated by, in their order; by default all trainable variables of its graph
                that are of real numbers, and that it depends on.

        Raises:
            GradientError: the loss does not depend on a variable that is given, or on none; the message names them.
            SpecError: the loss is an array; or a variable is given twice.
            SpecTypeError: the loss is no node of real numbers; or something else than real variables is given.
        """
        _check_loss(loss)
        if variables is None:
            wanted = [one for one in loss.graph.variables if one.trainable and _is_real(one)]
        else:
            wanted = list(variables)
            _check_variables(wanted)
        found = list(zip(gradients(loss, wanted), wanted, strict=True))
        missing = [one.name for gradient, one in found if gradient is None]
        if missing and (variables is not None or len(missing) == len(found)):
            raise GradientError(
                f"no gradient for {', '.join(map(repr, missing))}: {loss!r} does not depend on "
                f"{'it' if len(missing) == 1 else 'them'}, or only through integers, comparisons or stop_gradient\n"
                "  leave out of variables= what is not to be changed"
            )
        if not found:
            raise GradientError(
                f"{loss!r} cannot be minimized: there is no variable to change\n"
                "  what is to be learned is made by ag.variable(...), of real numbers"
            )
        return [(gradient, one) for gradient, one in found if gradient is not None]

    def apply_gradients(
        self, pairs: Iterable[tuple[Node | None, Variable]], step: Variable | None = None, name: str | None = None
    ) -> Node:
        """A node without a value that makes one step along gradients.

        Args:
            pairs: gradients, each with its variable, in any order.
            step: a variable that becomes larger by 1, such as `global_step()`.
            name: what the node is called.

        Raises:
            GradientError: there is no pair, or one has no gradient; the message names the variable.
            SpecError: a variable is there twice (add its gradients up), or a gradient has not its shape.
            SpecTypeError: there is something else than a variable of real numbers, and a gradient of its dtype; or
                `step` is no variable.
        """
        checked = _checked(list(pairs))
        if step is not None and not isinstance(step, Variable):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
            raise SpecTypeError(f"step takes a variable, such as ag.global_step(), not {step!r}")
        graph = checked[0][1].graph
        iterations = self.iterations(graph)
        with graph, name_scope(self.name):
            count = iterations.assign_add(ops.int64(1))  # Of a Python number NumPy would make an array in each step.
            rate = self.learning_rate
            rate = _checked_rate(rate(iterations)) if callable(rate) else rate
            steps = [count] if step is None else [count, step.assign_add(1)]
            updates = [self.update(one, gradient, _in_dtype_of(one, rate), count) for gradient, one in checked]
            return group(*updates, *steps, name=name or "step")

    @abstractmethod
    def update(self, variable: Variable, gradient: Node, rate: float | Node, count: Node) -> Node:
        """The node that makes one step of one variable: an assignment to it. Called in its graph.

        Args:
            variable: of real numbers; also what it was when the run started.
            gradient: of its shape and dtype.
            rate: how far the step goes; if it is a node, of the dtype of the variable.
            count: the number of the step, an int64. The first is 1.
        """

    def slot(self, variable: Variable, name: str, initial: float = 0.0) -> Variable:
        """What is remembered of `variable` under that name: a variable like it, all `initial` at first."""
        known = self._slots.get((variable, name))
        if known is None:
            known = self._slots[variable, name] = self._new_slot(variable, name, initial)
        return known

    def iterations(self, graph: Graph) -> Variable:
        """How many steps it has made in a graph: an int64, in a variable named `<optimizer>/iterations`."""
        known = self._counts.get(graph)
        if known is None:
            with graph, name_scope(None):
                known = self._counts[graph] = variable(ops.int64(0), f"{self.name}/iterations", trainable=False)
        return known

    def _new_slot(self, of: Variable, name: str, initial: float) -> Variable:
        full = f"{of.name}/{self.name}/{name}"
        with of.graph, name_scope(None), control_dependencies(None), device(of.requested_device):
            # Like the variable: its shape may be known only when it runs.
            return variable(ops.full_like(of, initial, name=f"{full}/initial"), full, trainable=False)


@final
@dataclass(eq=False)
class SGD(Optimizer):
    """Stochastic gradient descent: `w -= rate * g`."""

    def update(self, variable: Variable, gradient: Node, rate: float | Node, count: Node) -> Node:
        """See `Optimizer`."""
        return variable.assign_sub(gradient * rate)


@final
@dataclass(eq=False)
class Momentum(Optimizer):
    """Steps along a decaying sum of the gradients, the slot "m".

        m = momentum * m + g
        w -= rate * m                               # or, with `nesterov`: w -= rate * (g + momentum * m)

    As in TensorFlow and PyTorch, the rate is no part of what is summed. Polyak, "Some methods of speeding up the
    convergence of iteration methods", 1964; Sutskever et al., "On the importance of initialization and momentum in deep
    learning", 2013, whose form of Nesterov's method this is, seen from the point that gradients are taken at.

    Fields:
        momentum: how much is kept of the sum from step to step, from 0 to less than 1.
        nesterov: whether a step goes along the sum as it will be after one more such gradient.
    """

    momentum: float = 0.9
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.momentum = _within("momentum", self.momentum, 1.0)

    def update(self, variable: Variable, gradient: Node, rate: float | Node, count: Node) -> Node:
        """See `Optimizer`."""
        m = self.slot(variable, "m")
        new = m.assign(m.current() * self.momentum + gradient)
        return variable.assign_sub((new * self.momentum + gradient if self.nesterov else new) * rate)


@final
@dataclass(eq=False)
class Adam(Optimizer):
    """Steps of about the learning rate, along the mean gradient in terms of its own size: the slots "m" and "v".

        m += (1 - beta1) * (g - m);  v += (1 - beta2) * (g**2 - v)
        w -= rate * m / (1 - beta1**t) / (sqrt(v / (1 - beta2**t)) + epsilon)

    in the step number t, which begins at 1. This is algorithm 1 of Kingma and Ba, "Adam: A method for stochastic
    optimization", arXiv:1412.6980, epsilon where the paper has it, beside the corrected root, as in PyTorch and Optax.
    In TensorFlow and Keras it is beside the root of `v` itself.

    Fields:
        beta1, beta2: how much is kept, from step to step, of the means of the gradient and of its square; from 0 to
            less than 1.
        epsilon: what the root is never smaller than. 0 is allowed, but an element whose gradient was always 0 is then
            0 / 0. In float16 1e-8 is 0, too: give 1e-4 there.
    """

    learning_rate: Rate | Callable[[Variable], Rate] = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_adam(self)

    def update(self, variable: Variable, gradient: Node, rate: float | Node, count: Node) -> Node:
        """See `Optimizer`."""
        return _adam_step(self, variable, gradient, rate, count)


@final
@dataclass(eq=False)
class AdamW(Optimizer):
    """Adam, and besides it a decay of the variables that takes no part in its means: `w -= rate * decay * w`.

    Algorithm 2 of Loshchilov and Hutter, "Decoupled weight decay regularization", arXiv:1711.05101, with the learning
    rate in front of the decay, too, as Keras, PyTorch and Optax have it; the paper has only the schedule there.

    Fields:
        beta1, beta2, epsilon: as of `Adam`.
        decay: how much of a variable decays, in terms of the learning rate.
        decays: which variables do, by a function of the variable; `None` for all. Often offsets do not:
            `decays=lambda w: w.ndim > 1`.
    """

    learning_rate: Rate | Callable[[Variable], Rate] = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 1e-2
    decays: Callable[[Variable], bool] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_adam(self)
        self.decay = _within("decay", self.decay, inf)
        if self.decays is not None and not callable(self.decays):
            raise ValueError(f"decays={self.decays!r}: give a function of a variable, such as lambda w: w.ndim > 1")

    def update(self, variable: Variable, gradient: Node, rate: float | Node, count: Node) -> Node:
        """See `Optimizer`."""
        decays = self.decays is None or self.decays(variable)
        return _adam_step(self, variable, gradient, rate, count, *([rate * self.decay] if decays else []))


@final
@dataclass(eq=False)
class Adagrad(Optimizer):
    """Steps that become smaller the more an element has moved: by the sum of its squared gradients, the slot "sum".

        sum += g**2;  w -= rate * g / (sqrt(sum) + epsilon)

    Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and stochastic optimization", 2011,
    figure 1.

    Fields:
        initial: what the sum begins with, as in TensorFlow.
        epsilon: what the root is never smaller than.
    """

    initial: float = 0.1
    epsilon: float = 1e-7

    def __post_init__(self) -> None:
        super().__post_init__()
        self.initial = _within("initial", self.initial, inf)
        self.epsilon = _within("epsilon", self.epsilon, inf)

    def update(self, variable: Variable, gradient: Node, rate: float | Node, count: Node) -> Node:
        """See `Optimizer`."""
        total = self.slot(variable, "sum", self.initial).assign_add(ops.square(gradient))
        return variable.assign_sub(gradient * rate / (ops.sqrt(total) + self.epsilon))


def clip_by_global_norm(gradients: Iterable[Node | None], max_norm: float | Node) -> tuple[list[Node | None], Node]:
    """The gradients, made smaller by one factor if their norm is larger than `max_norm`; and that norm.

    The norm is the root of the sum of all squared elements of all of them, those of float16 as float32. What is `None`
    stays so. If the norm is infinite or NaN, so that there is no such factor, the gradients become NaN. Pascanu et al.,
    "On the difficulty of training recurrent neural networks", arXiv:1211.5063.

        pairs = optimizer.compute_gradients(loss)
        clipped, norm = clip_by_global_norm([gradient for gradient, _ in pairs], 1.0)
        train = optimizer.apply_gradients(zip(clipped, [variable for _, variable in pairs]))

    Raises:
        GradientError: there is no gradient.
        SpecTypeError: one is not of real numbers.
        ValueError: `max_norm` is not positive.
    """
    listed = list(gradients)
    known = [one for one in listed if one is not None]
    if not known:
        raise GradientError("clip_by_global_norm: there is no gradient")
    for one in known:
        if not _is_real(one):
            raise SpecTypeError(f"clip_by_global_norm: a gradient is of real numbers, such as float32, not {one!r}")
    if not isinstance(max_norm, Node) and not 0.0 < max_norm < inf:
        raise ValueError(f"clip_by_global_norm: max_norm={max_norm!r}: give a positive number")
    with name_scope("clip_by_global_norm"):
        # Squares of float16 are infinite from 256 on.
        wide = [ops.astype(one, ops.float32) if one.dtype == np.float16 else one for one in known]
        norm = ops.sqrt(sum(ops.sum(ops.square(one)) for one in wide))
        factor = ops.where(ops.isfinite(norm), max_norm / ops.maximum(norm, max_norm), nan)
        return [None if one is None else one * _in_dtype_of(one, factor) for one in listed], norm


def _in_dtype_of(node: Node, rate: float | Node) -> float | Node:
    """A number as it is; a node in the dtype of `node`, so that a product with it is of that dtype, too."""
    # To NumPy None is float64.
    if not isinstance(rate, Node) or node.dtype is None or (rate.dtype is not None and rate.dtype == node.dtype):
        return rate
    return ops.astype(rate, node.dtype)


def _adam_step(
    adam: Adam | AdamW, variable: Variable, gradient: Node, rate: float | Node, count: Node, *shrink: float | Node
) -> Node:
    m, v = adam.slot(variable, "m"), adam.slot(variable, "v")
    betas: Params = {"beta1": adam.beta1, "beta2": adam.beta2}
    # Equal nodes of all variables become one.
    rates = build_several("adam_rates", (count, rate), {**betas, "epsilon": adam.epsilon, "dtype": variable.dtype})
    before = variable.current(), gradient, m.current(), v.current()
    after, new_m, new_v = build_several("adam", (*before, *rates, *shrink), betas)
    with control_dependencies([m.assign(new_m), v.assign(new_v)]):
        return variable.assign(after)


def _check_adam(adam: Adam | AdamW) -> None:
    adam.beta1 = _within("beta1", adam.beta1, 1.0)
    adam.beta2 = _within("beta2", adam.beta2, 1.0)
    adam.epsilon = _within("epsilon", adam.epsilon, inf)


def _within(name: str, value: object, bound: float) -> float:
    """`value` as a float of Python's: one of NumPy's would take part in promotion with its own dtype."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) < bound:
        raise ValueError(f"{name}={value!r}: give a number from 0 to less than {bound}")
    return float(value)


def _checked_rate(rate: object) -> Rate:
    if not isinstance(rate, Node):
        return _within("learning_rate", rate, inf)
    if rate.dtype is not None and rate.dtype.kind not in "fiu":
        raise SpecTypeError(f"a learning rate is a real number, not {rate!r}")
    if rate.ndim not in (None, 0):
        raise SpecError(
            f"a learning rate is one number, and {rate!r} is an array\n  built at: {rate.site or 'unknown'}"
        )
    return rate


def _is_real(node: Node) -> bool:
    return node.dtype is not None and node.dtype.kind == "f"


def _check_loss(loss: Node) -> None:
    if not isinstance(loss, Node) or not _is_real(loss):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        raise SpecTypeError(f"a loss is a node of real numbers, such as float32, not {loss!r}")
    if loss.ndim not in (None, 0):
        raise SpecError(
            f"a loss is one number, and {loss!r} is an array\n"
            f"  built at: {loss.site or 'unknown'}\n  write ops.mean(loss), or ops.sum(loss)"
        )


def _check_variables(variables: Sequence[Variable]) -> None:
    for one in variables:
        if not isinstance(one, Variable) or not _is_real(one):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
            raise SpecTypeError(f"an optimizer changes variables of real numbers, such as float32, not {one!r}")
    twice = [one.name for one, times in Counter(variables).items() if times > 1]
    if twice:
        raise SpecError(f"given more than once: {', '.join(map(repr, twice))}\n  a variable has one gradient: the sum")


def _checked(pairs: Sequence[tuple[Node | None, Variable]]) -> list[Pair]:
    _check_variables([one for _, one in pairs])
    if not pairs:
        raise GradientError("there is no gradient to apply")
    missing = [one.name for gradient, one in pairs if gradient is None]
    if missing:
        raise GradientError(f"no gradient for {', '.join(map(repr, missing))}: leave out what is not to be changed")
    checked = [(cast(Node, gradient), one) for gradient, one in pairs]
    for gradient, one in checked:
        if not isinstance(gradient, Node):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
            raise SpecTypeError(f"the gradient of {one!r} is {gradient!r}, and no node: write ag.constant(gradient)")
        if gradient.dtype != one.dtype:
            raise SpecTypeError(f"the gradient of {one!r} is {gradient!r}: write ops.astype(gradient, '{one.dtype}')")
        if not may_be(gradient.shape, one.shape):
            raise SpecError(f"the gradient of {one!r} has another shape: {gradient!r}")
    return checked
