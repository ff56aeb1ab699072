"""The tables, and what a row of each is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeVar, final

from ...errors import GraphError
from ..spec import ArraySpec

if TYPE_CHECKING:
    from ..node import Scalar
    from ..op import Params

SpecRule = Callable[[str, "tuple[ArraySpec | Scalar, ...]", "Params"], "ArraySpec | tuple[ArraySpec, ...]"]
"""Gives the spec of an op's result (a tuple of specs for several results), from its name, operands and params.

Raises:
    SpecError, SpecTypeError, SpecOverflowError: the op can never take these operands.
"""


@final
@dataclass(frozen=True, slots=True)
class RowQuestion:
    """What a row rule is asked.

    Fields:
        operands: the specs of the op's operands; numbers as they are.
        carries: for each operand, whether its first dimension is the batch: rows of several runs, joined.
            The others are one value for all rows.
        params: what else the op was given.
        result: the spec of the op's result.
    """

    operands: tuple[ArraySpec | Scalar, ...]
    carries: tuple[bool, ...]
    params: Params
    result: ArraySpec


RowRule = Callable[[RowQuestion], bool]
"""Whether row i of the result depends on row i of the operands that carry rows, and on nothing else of
them, so that the result carries rows too. Asked only if at least one operand carries rows."""


class Cost(Enum):
    """The class of an op's work: what its time grows with."""

    FREE = "a view, or a few bytes: does not grow"
    MOVE = "memory that is moved: grows with the larger of operands and result"
    CHEAP = "a few cycles an element, such as add"
    MATH = "tens of cycles an element, such as sin"
    REDUCE = "a few cycles for each element of the operand"
    MATMUL = "a multiplication for each element of the result and each of the contracted dimension"
    OPAQUE = "not known"


SPECS: Final[dict[str, SpecRule]] = {}
ROWS: Final[dict[str, RowRule]] = {}
COSTS: Final[dict[str, Cost]] = {}
VIEWS: Final[dict[str, tuple[int, ...]]] = {}
"""Operands, by position, whose memory the result may share. No row: it never does."""

_Rule = TypeVar("_Rule")


def row_of(table: dict[str, _Rule], table_name: str, op: str) -> _Rule:
    """The row of an op.

    Raises:
        GraphError: the table has none.
    """
    rule = table.get(op)
    if rule is None:
        raise GraphError(f"the op {op!r} has no row in the table {table_name}")
    return rule
