"""What `asyncgraph.abc` asks of a backend, as a class of tests for pytest.

    class TestMyBackend(BackendConformance):
        backend_class = MyBackend

is a whole file of tests. Each test asks one thing, of the backend alone or of a session that runs on its devices. No
entry point is needed. `pytest -m "conformance(group='values')"` runs one group:

values: every op gives NumPy's values, over dtypes, shapes, layouts in memory and edge cases, and writes to no operand.
transfers: what goes to a device, between devices or over DLPack comes back as it was; what is declared is so.
placement: nodes run where they were built for; a value is moved where it is needed, once; so are results.
lifetime: what is over is dropped, by the backend and by sessions; `close` ends all threads.
asynchronous: neither `submit` nor the loop waits for a device; `done` comes when all can be read; what a device reads
    lives until then, also if the run is ended; kernels and transfers are called inside of works alone.
faults: a failing kernel or transfer, no memory, a lost device: they end the runs that need them, by their own errors,
    and no others.

The same without a file: `python -m asyncgraph.testing --backend NAME` prints a table of the groups.
"""

from __future__ import annotations

from abc import ABC

from ._kit.asynchronous import Asynchronous
from ._kit.faults import Faults
from ._kit.lifetime import Lifetime
from ._kit.placement import Placement
from ._kit.transfers import Transfers
from ._kit.values import Values


class BackendConformance(Transfers, Values, Placement, Lifetime, Asynchronous, Faults, ABC):
    """The tests of a backend. To be subclassed, with a name that pytest collects; subclasses set its attributes.

    `backend_class` must be set. `exact`, `tolerances`, `flushed`, `dtypes` and `expected_failures` say in what the
    backend is not like NumPy's, and why. On a machine where the backend finds no device, its tests are skipped, and
    say why.
    """
