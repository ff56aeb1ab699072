"""Kernels that draw random numbers, on the host.

A draw depends on its key alone, and on the stream of the node. The key says from which seed, and in which run.
Philox is counter-based: it needs no warming up, and keys that differ in any bit have streams that have nothing to do
with each other. Each thread has one generator, which is set to a key at 3 µs; to make one takes 16 µs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from math import prod
from typing import Any, Final, cast, final

import numpy as np

from .._graph.node import Node
from .._graph.op import RANDOM_BERNOULLI, RANDOM_NORMAL, RANDOM_PERMUTATION, RANDOM_UNIFORM, Op

Key = tuple[int, ...]
"""The seed of the session, or of the run, and the number of the run; in loops, also that of the iteration.

A seed that nobody chose is negative."""

_Array = np.ndarray[Any, Any]
_Sizes = tuple[int, ...]


@final
class _Thread(threading.local):
    """What a thread draws with. Nothing is kept in it from one draw to the next."""

    def __init__(self) -> None:
        self.generator: Final = np.random.Generator(np.random.Philox(key=0))


_thread: Final = _Thread()
_START: Final = np.zeros(4, np.uint64)


def generator(key: Key, stream: bytes) -> np.random.Generator:
    """The thread's generator at the start of a stream, until the thread asks for another."""
    numbers = b" ".join([b"%d" % one for one in key])
    digest = blake2b(b"%b %b" % (numbers, stream), digest_size=16).digest()
    made = _thread.generator
    made.bit_generator.state = {
        "bit_generator": "Philox",
        "state": {"counter": _START, "key": np.frombuffer(digest, "<u8")},
        "buffer": _START,
        "buffer_pos": 4,  # as nothing is left in it
        "has_uint32": 0,
        "uinteger": 0,
    }
    return made


def stream_of(node: Node) -> bytes:
    """What tells the draws of a node from those of others: its own seed, or else its name."""
    seed = node.params.get("seed")
    return b"name " + node.name.encode("utf-8", "surrogatepass") if seed is None else b"seed %d" % cast(int, seed)


def _uniform(node: Node) -> Callable[[np.random.Generator, _Sizes], _Array]:
    dtype = cast("np.dtype[Any]", node.params["dtype"])
    low, high = _numbers(node, "low", "high")
    if (low, high) == (0.0, 1.0):
        return lambda draw, sizes: draw.random(sizes, dtype)
    width, last = dtype.type(high - low), np.nextafter(dtype.type(high), dtype.type(low))

    def made(draw: np.random.Generator, sizes: _Sizes) -> _Array:
        values = draw.random(sizes, dtype)
        values *= width
        values += dtype.type(low)
        # A number just below 1 may have been rounded up to `high`.
        return np.minimum(values, last, out=values)

    return made


def _normal(node: Node) -> Callable[[np.random.Generator, _Sizes], _Array]:
    dtype = cast("np.dtype[Any]", node.params["dtype"])
    mean, std = _numbers(node, "mean", "std")
    if (mean, std) == (0.0, 1.0):
        return lambda draw, sizes: draw.standard_normal(sizes, dtype)

    def made(draw: np.random.Generator, sizes: _Sizes) -> _Array:
        values = draw.standard_normal(sizes, dtype)
        values *= std
        values += mean
        return values

    return made


def _bernoulli(node: Node) -> Callable[[np.random.Generator, _Sizes], _Array]:
    (p,) = _numbers(node, "p")
    below = p * 2.0**32

    def made(draw: np.random.Generator, sizes: _Sizes) -> _Array:
        count = prod(sizes)
        # Two draws of 32 bits in one of 64, in the same order on any machine.
        pairs = draw.integers(0, 2**64, (count + 1) // 2, np.uint64).astype("<u8", copy=False)
        return np.less(pairs.view("<u4")[:count], below).reshape(sizes)

    return made


def _permutation(node: Node) -> Callable[[np.random.Generator, _Sizes], _Array]:
    def made(draw: np.random.Generator, sizes: _Sizes) -> _Array:
        if not sizes:
            raise ValueError("a value of rank 0 has no rows to be put in another order")
        return draw.permutation(sizes[0]).astype(np.int64, copy=False)

    return made


def _numbers(node: Node, *names: str) -> tuple[float, ...]:
    return tuple([cast(float, node.params[name]) for name in names])


_DRAWS: Final[Mapping[Op, Callable[[Node], Callable[[np.random.Generator, _Sizes], _Array]]]] = {
    RANDOM_BERNOULLI: _bernoulli,
    RANDOM_NORMAL: _normal,
    RANDOM_PERMUTATION: _permutation,
    RANDOM_UNIFORM: _uniform,
}


def _sizes_of(node: Node) -> Callable[[Sequence[Any]], _Sizes]:
    """Gives the shape of a draw, from the operands: the sizes that were not known before, or a value of that shape."""
    sizes = cast("tuple[int | None, ...] | None", node.params["shape"])
    if sizes is None:
        return lambda operands: np.shape(operands[0])
    if None not in sizes:
        return lambda operands: cast(_Sizes, sizes)
    return lambda operands: tuple(_filled(sizes, operands))


def _filled(sizes: tuple[int | None, ...], operands: Sequence[Any]) -> Iterator[int]:
    given = iter(operands)
    for size in sizes:
        yield int(next(given)) if size is None else size


def _kernel(node: Node) -> Callable[..., _Array]:
    made, stream, sizes_of = _DRAWS[node.op](node), stream_of(node), _sizes_of(node)
    is_seeded = node.params.get("seed") is not None

    def kernel(key: Key, *operands: Any) -> _Array:
        if is_seeded and key[0] < 0:
            key = (0, *key[1:])  # The op's seed was chosen, the session's was not.
        return made(generator(key, stream), sizes_of(operands))

    return kernel


RANDOM_KERNELS: Final[Mapping[str, Callable[[Node], Callable[..., _Array]]]] = {op.name: _kernel for op in _DRAWS}
"""Makes the kernel of a node that draws: called with the key of the run and the operands, gives a new array."""
