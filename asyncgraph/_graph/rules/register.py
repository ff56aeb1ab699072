"""An op's rows in all tables, filled at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import GraphError
from ..spec import ArraySpec
from .probe import refusal
from .tables import COSTS, ROWS, SPECS, VIEWS, Cost, RowRule, SpecRule

if TYPE_CHECKING:
    from ..node import Scalar
    from ..op import Params


def register(op: str, spec: SpecRule, rows: RowRule, cost: Cost, views: tuple[int, ...] = ()) -> None:
    """Fills the rows of `op`. What its spec rule raises need not name the op and its operands: it is told with them."""
    SPECS[op], ROWS[op], COSTS[op] = _told_with_operands(spec), rows, cost
    if views:
        VIEWS[op] = views


def _told_with_operands(rule: SpecRule) -> SpecRule:
    def told(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> ArraySpec | tuple[ArraySpec, ...]:
        try:
            return rule(op, operands, params)
        except GraphError as error:
            raise refusal(op, operands, error) from error.__cause__

    return told
