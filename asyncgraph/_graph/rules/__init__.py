"""What is known of each op, in tables: one row an op in each.

SPECS   the dtype and shape of its result, or why there can be none
ROWS    whether row i of its result depends on row i of its operands alone (what batching needs)
COSTS   what it costs, by the class of its work
VIEWS   the operands whose memory its result may share

Each chapter of the Array API standard has a module that fills the rows of its ops. A missing row is
an error that names the op and the table. NumPy is the specification: dtypes are asked of NumPy itself,
once for each combination, on arrays without elements; shapes are derived here, since NumPy knows no names.
"""

from __future__ import annotations

from . import creation as creation
from . import data_types as data_types
from . import derivatives as derivatives
from . import elementwise as elementwise
from . import fused as fused
from . import indexing as indexing
from . import linalg as linalg
from . import manipulation as manipulation
from . import random as random
from . import searching as searching
from . import statistical as statistical
from . import updates as updates
from . import utility as utility
