"""The spec of a node before it is built, remembered for ops without parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...errors import GraphError
from ..node import Node, Scalar
from ..op import NO_PARAMS
from ..spec import ArraySpec
from .tables import SPECS, row_of

if TYPE_CHECKING:
    from ..op import Params

# Specs are interned, so a key hashes identities. Cleared when full rather than trimmed: filling it
# again costs less than knowing what is old.
_LIMIT: Final = 4096
_known: dict[tuple[object, ...], ArraySpec] = {}


def infer_spec(op: str, operands: tuple[Node | ArraySpec | Scalar, ...], params: Params) -> ArraySpec:
    """The spec of the one result of `op`, applied to `operands`, or to what has these specs, with `params`.

    Raises:
        SpecError, SpecTypeError, SpecOverflowError: the op can never take these operands.
        GraphError: there is no such op, or it has several results.
    """
    seen = tuple([one.spec if isinstance(one, Node) else one for one in operands])
    if params is not NO_PARAMS:
        return _one(op, row_of(SPECS, "SPECS", op)(op, seen, params))
    for one in seen:
        # 1, 1.0 and True are one key, and what they promote to is not one dtype.
        if type(one) is not ArraySpec:
            return _one(op, row_of(SPECS, "SPECS", op)(op, seen, params))
    key = (op, *seen)
    spec = _known.get(key)
    if spec is None:
        spec = _one(op, row_of(SPECS, "SPECS", op)(op, seen, params))
        if len(_known) >= _LIMIT:
            _known.clear()
        _known[key] = spec
    return spec


def infer_specs(op: str, operands: tuple[Node | Scalar, ...], params: Params) -> tuple[ArraySpec, ...]:
    """The specs of the results of an op that has several, such as `unstack`.

    Raises:
        SpecError, SpecTypeError: the op can never take these operands.
        GraphError: there is no such op, or it has one result.
    """
    seen = tuple([one.spec if isinstance(one, Node) else one for one in operands])
    specs = row_of(SPECS, "SPECS", op)(op, seen, params)
    if isinstance(specs, ArraySpec):
        raise GraphError(f"the op {op!r} has one result, not several")
    return specs


def _one(op: str, spec: ArraySpec | tuple[ArraySpec, ...]) -> ArraySpec:
    if not isinstance(spec, ArraySpec):
        raise GraphError(f"the op {op!r} has {len(spec)} results, not one")
    return spec
