"""`python -m asyncgraph.testing --backend NAME`: what a backend does, of all that is asked of it, as a table.

Without `--backend`, `--count` random scenarios of each kind are played, and a line says how they went: graphs that
compute, and readers and writers of variables.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from time import perf_counter

from ..errors import BackendNotFoundError
from ._play import Scenario, play
from ._prove import prove
from ._scenario import GraphScenario
from ._transactions import TransactionScenario


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the conformance kit, or plays the scenarios of `count` seeds from `seed` on; the exit code.

    Raises:
        AssertionError, SimulationError: a scenario was not as promised. The message has the seed that shows it again.
    """
    parser = ArgumentParser(prog="python -m asyncgraph.testing", description=__doc__)
    parser.add_argument("--backend", help="an installed one, or MODULE:CLASS of one, or of a BackendConformance")
    parser.add_argument("--count", type=int, default=1000, help="how many scenarios of each kind (1000)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first (0)")
    asked = parser.parse_args(arguments)
    if asked.backend is None:
        for kind in (GraphScenario, TransactionScenario):
            print(campaign(range(asked.seed, asked.seed + asked.count), kind))
        return 0
    try:
        return prove(asked.backend)
    except BackendNotFoundError as error:
        print(error, file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(f"the conformance kit needs pytest: {error}\n  pip install pytest", file=sys.stderr)
        return 2


def campaign(seeds: range, make: Callable[[Random], Scenario] = GraphScenario) -> str:
    """Plays a scenario for each seed; what to say of them."""
    start = perf_counter()
    outcomes: Counter[str] = Counter()
    orders: set[int] = set()
    steps = 0
    for seed in seeds:
        ended, log = play(seed, make)
        outcomes.update(ended)
        orders.add(hash(tuple(log)))
        steps += len(log)
    seconds = perf_counter() - start
    ways = ", ".join(f"{count} {name}" for name, count in outcomes.most_common())
    return (
        f"{len(seeds)} scenarios in {len(orders)} different orders of {steps} steps, {seconds:.1f} s; "
        f"{outcomes.total()} runs: {ways}"
    )


if __name__ == "__main__":
    sys.exit(main())
