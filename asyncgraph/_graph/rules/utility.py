"""Whether all elements hold, or any."""

from __future__ import annotations

from .register import register
from .statistical import reduction_rowwise, reduction_spec
from .tables import Cost

for _name in ("all", "any"):
    register(_name, reduction_spec, reduction_rowwise, Cost.REDUCE)
