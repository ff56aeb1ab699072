"""What real threads have seen and committed could have come of running one after the other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from random import Random
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph.errors import StateConflictError
from asyncgraph.testing._serializability import Transaction, check_serializable

VARIABLES = 3


class Bank:
    """A graph of every kind of reader and writer, and what they have seen and done."""

    def __init__(self) -> None:
        self.history: list[Transaction] = []
        self.clock = count(1)
        self.local = threading.local()
        with ag.Graph() as self.graph:
            self.token = ag.placeholder("float64", ())
            self.variables = [ag.variable(0.0, f"v{index}") for index in range(VARIABLES)]
            self.adds = [v.assign_add(self.token) for v in self.variables]
            self.sets = [v.assign(self.token) for v in self.variables]
            self.moves = [v.assign(ag.op(self.nest, spec="float64[]")(v) + self.token) for v in self.variables]
            later = ag.op(self.later, spec="float64[]")
            self.waits = [v.assign_add(later(self.token)) for v in self.variables]

    async def later(self, value: Any) -> Any:
        return value

    def nest(self, value: Any) -> Any:
        """An op that runs something itself."""
        random, session = self.local.random, self.local.session
        if random.random() < 0.5:
            self.act(session, random, self.local.asked)
        return value

    def act(self, session: ag.BlockingSession, random: Random, since: int | None = None) -> None:
        asked = next(self.clock)
        token = float(random.randrange(1 << 30, 1 << 31))
        way = random.choice((self.adds, self.sets, self.moves, self.waits, None))
        if way is None:
            values = session.run(self.variables).results
            reads = {v.name: float(value) for v, value in zip(self.variables, values, strict=True)}
            self.note(reads, {}, since or asked)
            return
        first, second = random.sample(range(VARIABLES), 2)
        looked = [] if way is self.sets else [self.variables[first]]
        other = [self.variables[second]] if random.random() < 0.5 else []
        if since is None:
            self.local.asked = asked
        try:
            fetches = [way[first], *looked, *other]
            new, *seen = session.run(fetches, {self.token: token}).results
        except StateConflictError:
            return
        names = [v.name for v in (*looked, *other)]
        reads = dict(zip(names, map(float, seen), strict=True))
        self.note(reads, {self.variables[first].name: float(new)}, asked)

    def note(self, reads: dict[str, float], writes: dict[str, float], asked: int) -> None:
        ended = next(self.clock)
        self.history.append(Transaction(f"run {asked}", reads, writes, asked, ended))


@pytest.mark.parametrize("seed", range(4))
def test_what_threads_have_seen_and_done_is_serializable(seed: int) -> None:
    bank = Bank()

    def work(number: int) -> None:
        bank.local.random, bank.local.session = Random(1000 * seed + number), session
        for _ in range(8):
            bank.act(session, bank.local.random)

    with ag.BlockingSession(bank.graph) as session, ThreadPoolExecutor(5) as threads:
        list(threads.map(work, range(5)))
        held = {v.name: float(value) for v, value in session.store.snapshot().items()}
    assert len(bank.history) > 20
    history = [*bank.history, Transaction("the end", held, {}, next(bank.clock))]
    check_serializable(history, {v.name: 0.0 for v in bank.variables})
