"""Ten threads share one blocking session; each feeds its own values and gets its own results.

Prints:
    thread 0: mean 4.5, spread 2.872
    thread 1: mean 14.5, spread 2.872
    thread 2: mean 24.5, spread 2.872
    thread 3: mean 34.5, spread 2.872
    thread 4: mean 44.5, spread 2.872
    thread 5: mean 54.5, spread 2.872
    thread 6: mean 64.5, spread 2.872
    thread 7: mean 74.5, spread 2.872
    thread 8: mean 84.5, spread 2.872
    thread 9: mean 94.5, spread 2.872
    1000 runs
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np

import asyncgraph as ag

THREADS = 10
RUNS = 100

with ag.Graph() as graph:
    x = ag.placeholder("float64", ("n",), name="x")
    mean = ag.ops.mean(x, name="mean")
    spread = ag.ops.std(x, name="spread")

all_ready = Barrier(THREADS)


def work(session: ag.BlockingSession, number: int) -> str:
    values = np.arange(10.0) + 10 * number
    all_ready.wait()
    results = [session.run(ag.RunArgs((mean, spread), {x: values})).results for _ in range(RUNS)]
    (found,) = {f"mean {m}, spread {s:.3f}" for m, s in results}  # the same each time
    return f"thread {number}: {found}"


with ag.BlockingSession(graph) as session, ThreadPoolExecutor(THREADS) as pool:
    for line in pool.map(work, [session] * THREADS, range(THREADS)):
        print(line)
    print(THREADS * RUNS, "runs")
