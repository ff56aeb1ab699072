"""Where NumPy's function is not the Array API standard's: what stands in for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Final

from asyncgraph.abc import Kernel

KERNELS: Final[dict[str, Callable[[Mapping[str, object]], Kernel]]] = {
    # Written in C, where a lambda would cost as much as the indexing.
    "index": lambda params: itemgetter(params["key"]),
}
"""Makes the kernel of an op from its params."""
