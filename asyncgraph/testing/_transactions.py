"""Random readers and writers of variables, run by several callers at once who change their minds.

A scenario is a graph over a few variables, runs of it, and what goes wrong, all drawn from one seed. What a run makes
of the state that it has seen is checked against an interpreter. What all runs have seen must be what they would have
seen one after the other: each is fed numbers that no other is, so that a value that is assigned says whose it is.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextvars import ContextVar
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final, cast, final

import numpy as np

from .._graph.building import constant, placeholder, variable
from .._graph.graph import Graph
from .._graph.node import Node
from .._graph.scopes import device
from .._graph.variable import Variable
from .._session.args import RunArgs, RunOptions
from .._session.session import Session
from ..errors import DeviceLostError, NodeTimeoutError, RunTimeoutError, SessionClosedError, StateConflictError
from ..ops.custom import OpFunction, op
from ._device import DEVICES, DeviceArray, SimulatedBackend
from ._faults import FAULTS, OPS, SIZE, Fault, PlantedError, Script, current_script
from ._play import draw_config, on_devices
from ._serializability import Transaction, Version, check_serializable
from ._statements import TOKENS, Needed, Statement, Value, build_statements, draw_statements
from ._ways import WAYS, Asked, Way

_LARGEST: Final = 1 << 40
"""Half of the largest of the numbers that values are told by: sums of thousands are still exact."""


async def _nest(index: int, function: str, *values: Any) -> Any:
    script = current_script.get()
    with script.call(index):
        await _nested.get()()
        return script.result(index, function, values)


_nested: Final[ContextVar[Callable[[], Coroutine[Any, Any, None]]]] = ContextVar("nested")
"""What an op does that runs readers and writers itself."""
_OPS: Final[dict[str, OpFunction]] = {
    **{name: one for name, one in OPS.items() if name != "nested"},
    "nested": op(name="nested", spec=f"float64[{SIZE}]")(_nest),
}


async def _prepared(session: Session, asked: Asked, nodes: list[Node], feeds: dict[Node, Any]) -> Any:
    return (await session.prepare(nodes, list(feeds))(*feeds.values())).results


async def _mapped(session: Session, asked: Asked, nodes: list[Node], feeds: dict[Node, Any]) -> Any:
    async with session.map([RunArgs[list[Any]](nodes, feeds, asked.options)], concurrency=1) as runs:
        (results,) = [values.results async for values in runs]
    return results


async def _replaced(session: Session, asked: Asked, nodes: list[Node], feeds: dict[Node, Any]) -> Any:
    async with asyncio.timeout(asked.patience_s):
        await session.replace(cast("dict[Variable, Any]", feeds))
    return []


_WAYS: Final[dict[Way, tuple[type[BaseException], ...]]] = {**WAYS, _prepared: (), _mapped: ()}


@final
class Errand:
    """One run: what it is asked for, what goes wrong, and what may come of it.

    Fields:
        fetches: statements, by index.
        needed: what these need.
        looks_at: the variables whose value at the start it fetches besides: all that it reads.
        tokens: what is added to what it assigns.
        fed: what is fed for variables; with `_replaced` what they are assigned.
        faults: the calls that fail.
        way, patience_s: how it is asked for, and when it is given up.
        options: of the run.
        may_raise: what may come of that, besides what the way may raise.
    """

    def __init__(self, statements: Sequence[Statement], variables: int, random: Random) -> None:
        self.way: Final = random.choice([*_WAYS, _replaced])
        some = [one for one in range(variables) if random.random() < 0.4]
        replaces = self.way is _replaced
        only_reads = replaces or random.random() < 0.2
        wanted = random.randint(1, 3)
        self.fetches: Final = [] if only_reads else [random.randrange(len(statements)) for _ in range(wanted)]
        self.needed: Final = Needed(statements, self.fetches)
        self.tokens: Final = [_array(draw_token(random)) for _ in range(TOKENS)]
        free = [one for one in range(variables) if one not in self.needed.adds_to]
        fed = some if replaces else [one for one in free if random.random() < 0.05 and not only_reads]
        self.fed: Final = {one: _array(draw_token(random)) for one in fed}
        looks_at = sorted({*self.needed.reads, *(some or [0] if only_reads else [])} - self.fed.keys())
        self.looks_at: Final = [] if replaces else looks_at
        ways = {index: statements[index].way for index in self.needed.indices if statements[index].way != "kernel"}
        careless = random.random() < 0.3
        self.faults: Final[dict[int, Fault]] = {
            index: random.choice(FAULTS) for index in ways if careless and random.random() < 0.3
        }
        self.patience_s: Final = random.random() * 0.06
        self.options: Final = RunOptions(
            timeout_s=random.random() * 0.06 if random.random() < 0.15 and self.way is not _prepared else None,
            copy_feeds=random.random() < 0.1,
            results="device" if random.random() < 0.1 else "host",
        )
        self.may_raise: Final[tuple[type[BaseException], ...]] = (
            *{fault.seen for fault in self.faults.values()},
            *((NodeTimeoutError,) if any("limited" in way for way in ways.values()) else ()),
            *((RunTimeoutError,) if self.options.timeout_s is not None else ()),
            *((TimeoutError,) if replaces else ()),
            *_WAYS.get(self.way, ()),
        )
        self.must_fail: Final = any(fault.again or "retried" not in ways[index] for index, fault in self.faults.items())


def draw_token(random: Random) -> float:
    """A number that nobody else draws."""
    return float(random.randrange(_LARGEST, 2 * _LARGEST))


def _array(token: float) -> Value:
    return np.full(SIZE, token)


def _version(value: Any) -> Version:
    """The number that a value is told by."""
    array = value.read() if isinstance(value, DeviceArray) else cast("Value", value)
    assert array.dtype == np.float64, array.dtype
    assert array.shape == (SIZE,), array.shape
    assert (array == array[0]).all(), f"half of one value, and half of another: {array}"
    return float(array[0])


def _spoil(arrays: Iterable[Any]) -> None:
    """Overwrites what may be overwritten."""
    for one in arrays:
        if isinstance(one, np.ndarray) and one.flags.writeable:
            one[...] = -1.0


@final
class FirstValues:
    """The variables of a scenario, and what they may hold at first.

    Fields:
        variables: in order.
        fails: whether a first value may fail to be computed.
        _known: for those whose initial value is a constant: that; also what a dependent one adds to another.
        _of: for those that depend on another variable: which.
        _given: for those that a function gives a value: what it has given.
    """

    def __init__(self, random: Random, made: list[weakref.ref[Any]]) -> None:
        self.variables: Final[list[Variable]] = []
        self.fails: Final = random.random() < 0.2
        self._random: Final = random
        self._made: Final = made
        self._known: Final[dict[int, Version]] = {}
        self._of: Final[dict[int, int]] = {}
        self._given: Final[dict[int, list[Version]]] = {}
        devices = (None, *map(str, DEVICES)) if random.random() < 0.3 else (None,)
        for index in range(random.randint(1, 4)):
            with device(random.choice(devices)):
                self.variables.append(self._variable(index))
        self.on_devices: Final = any(one.device is not None for one in self.variables)

    def _variable(self, index: int) -> Variable:
        name, kind = f"v{index}", self._random.choice(("constant", "sync", "async", "dependent"))
        if kind == "sync" or kind == "async":
            self._given[index] = []
            give = partial(self._give, index) if kind == "sync" else partial(self._give_later, index)
            return variable(give, name, dtype="float64", shape=(SIZE,))
        self._known[index] = draw_token(self._random)
        if kind == "constant" or not index:
            return variable(_array(self._known[index]), name)
        self._of[index] = self._random.randrange(index)
        return variable(self.variables[self._of[index]] + constant(_array(self._known[index])), name)

    def _give(self, index: int) -> Value:
        if self.fails and self._random.random() < 0.3:
            raise PlantedError("no first value")
        value = _array(draw_token(self._random))
        self._given[index].append(float(value[0]))
        self._made.append(weakref.ref(value))
        return value

    async def _give_later(self, index: int) -> Value:
        await asyncio.sleep(self._random.random() * 0.02)
        return self._give(index)

    def check(self, history: list[Transaction]) -> None:
        """That a history is serializable, from these first values on."""
        first: dict[str, Version] = {}
        written = {(name, version) for one in history for name, version in one.writes.items()}
        for index, one in reversed(list(enumerate(self.variables))):
            read = sorted({each.reads[one.name] for each in history if one.name in each.reads})
            foreign = [version for version in read if (one.name, version) not in written]
            if index in self._of:
                # Whoever computed it has read another variable.
                for version in foreign:
                    seen = {self.variables[self._of[index]].name: version - self._known[index]}
                    history.append(Transaction(f"first value of {one.name}", seen, {one.name: version}, is_first=True))
            elif index in self._known:
                first[one.name] = self._known[index]
            else:
                given = [version for version in foreign if version in self._given[index]]
                assert len(given) <= 1, f"{one.name} had several first values: {given}"
                if given:
                    first[one.name] = given[0]
        check_serializable(history, first)


@final
class TransactionScenario:
    """A graph over variables, and its readers and writers.

    Fields:
        outcomes: how many runs ended how, by the name of the exception; "value" for those that succeeded.
    """

    def __init__(self, random: Random) -> None:
        self.outcomes: Final[Counter[str]] = Counter()
        self._random: Final = random
        self._arrays: Final[list[weakref.ref[Any]]] = []
        self._history: Final[list[Transaction]] = []
        self._clock: Final = count()
        self._complaints: Final[list[dict[str, Any]]] = []
        self._shared: Final = PlantedError("one object, raised by many runs")
        self._scripts: Final[list[Script]] = []
        with Graph() as self._graph:
            self._first: Final = FirstValues(random, self._arrays)
            self._variables: Final = self._first.variables
            self._statements: Final = draw_statements(random, len(self._variables), [*_OPS, *["nested"] * 5])
            self._nodes: Final = build_statements(self._statements, self._variables, _OPS)
            self._token: Final = placeholder("float64", (SIZE,), name="added_token")
            self._adds: Final = [one.assign_add(self._token) for one in self._variables]
        self._callers: Final = [
            [Errand(self._statements, len(self._variables), random) for _ in range(random.randint(1, 3))]
            for _ in range(random.randint(2, 5))
        ]
        self._quick: Final = random.randint(0, 2)
        self._closes_early: Final = random.random() < 0.1
        self._loses_devices: Final = random.random() < 0.2
        self._initializes: Final = random.random() < 0.2
        self._config: Final = draw_config(random)

    async def main(self) -> None:
        """Runs everything and checks it."""
        await on_devices(SimulatedBackend(self._random, self._loses_devices), self._run_all, self._complaints)

    async def _run_all(self) -> None:
        session = Session(self._graph, config=self._config)
        async with session:
            if self._initializes:
                await asyncio.gather(*[self._initialize(session) for _ in range(2)])
            callers = [asyncio.create_task(self._call_all(session, errands)) for errands in self._callers]
            callers += [asyncio.create_task(self._add_often(session)) for _ in range(self._quick)]
            if self._closes_early:
                await asyncio.sleep(self._random.random() * 0.1)
            else:
                await asyncio.wait(callers)
        await asyncio.gather(*callers)
        seen = session.statistics()
        assert seen.runs_started == seen.runs_ended, seen
        assert (seen.runs_executing, seen.runs_waiting, seen.abandoned) == (0, 0, ()), seen
        for script in self._scripts:
            assert not script.late, f"called after their run had ended: {script.late}"
        last = {one.name: _version(value) for one, value in session.store.snapshot().items()}
        self._history.append(Transaction("the end", last, {}, next(self._clock)))
        self._first.check(self._history)

    async def _initialize(self, session: Session) -> None:
        some = self._random.sample(self._variables, self._random.randint(0, len(self._variables)))
        try:
            await session.initialize(some or None)
        except (PlantedError, DeviceLostError) as error:
            self._check_error(error, ())

    async def _call_all(self, session: Session, errands: Sequence[Errand]) -> None:
        for errand in errands:
            if self._random.random() < 0.5:
                await asyncio.sleep(self._random.random() * 0.02)
            # In a task of its own: it may be cancelled late.
            await asyncio.create_task(self._call(session, errand))

    async def _call(self, session: Session, errand: Errand) -> None:
        """One run, from a caller's side. Raises nothing but what is wrong."""
        script = Script(self._random, session, self._shared, errand.faults)
        name = f"run {next(self._clock)}"
        asked = next(self._clock)
        current_script.set(script)
        _nested.set(partial(self._nest, session, name, asked))
        fed = {self._variables[index]: value.copy() for index, value in errand.fed.items()}
        tokens = {self._nodes[index]: value.copy() for index, value in enumerate(errand.tokens)}
        feeds: dict[Node, Value] = {**fed} if errand.way is _replaced else {**tokens, **fed}
        self._arrays.extend([weakref.ref(value) for value in feeds.values()])
        nodes: list[Node] = [self._nodes[index] for index in errand.fetches]
        nodes += [self._variables[index] for index in errand.looks_at]
        try:
            results = await errand.way(session, errand, nodes, feeds)
        except AssertionError:
            raise
        except BaseException as error:
            self._check_end(script)
            self._check_error(error, errand.may_raise)
        else:
            self._check_end(script)
            self._note(errand, results, name, asked)
            _spoil(results)
        # They are the caller's again.
        _spoil(feeds.values())
        self._arrays.extend(script.made)

    async def _add_often(self, session: Session) -> None:
        """Cheap runs that a plan is known for: they hold nothing, unless somebody else does."""
        random = self._random
        added = random.sample(range(len(self._variables)), random.randint(1, len(self._variables)))
        fetches = [*[self._variables[index] for index in added], *[self._adds[index] for index in added]]
        for _ in range(random.randint(3, 12)):
            if random.random() < 0.3:
                await asyncio.sleep(random.random() * 0.01)
            name, asked = f"quick run {next(self._clock)}", next(self._clock)
            running = asyncio.create_task(self._add(session, fetches))
            if random.random() < 0.2:
                await asyncio.sleep(0)
                running.cancel()
            await asyncio.wait([running])
            try:
                results = running.result()
            except BaseException as error:
                self._check_error(error, (asyncio.CancelledError,))
                continue
            ended, half = next(self._clock), len(added)
            self.outcomes["value"] += 1
            names = [self._variables[index].name for index in added]
            old = dict(zip(names, map(_version, results[:half]), strict=True))
            new = dict(zip(names, map(_version, results[half:]), strict=True))
            self._history.append(Transaction(name, old, new, asked, ended))
            _spoil(results)

    async def _add(self, session: Session, fetches: list[Node]) -> list[Any]:
        return (await session.run(fetches, {self._token: _array(draw_token(self._random))})).results

    def _check_end(self, script: Script) -> None:
        script.over = True
        self._scripts.append(script)
        assert not script.running, f"still running: {script.running}"

    def _check_error(self, error: BaseException, may_raise: Sequence[type[BaseException]]) -> None:
        uses_devices = self._first.on_devices or any(one.device is not None for one in self._statements)
        allowed = (
            *may_raise,
            *((SessionClosedError,) if self._closes_early else ()),
            *((PlantedError,) if self._first.fails else ()),
            *((DeviceLostError,) if uses_devices and self._loses_devices else ()),
        )
        assert type(error) in allowed, f"{error!r}, where {allowed} were possible"
        self.outcomes[type(error).__name__] += 1

    def _note(self, errand: Errand, results: Sequence[Any], name: str, asked: float) -> None:
        """Checks what a run has given against the state that it has seen, and notes what it has seen and done."""
        ended = next(self._clock)
        assert not errand.must_fail, f"it succeeded, though it should have raised one of {errand.may_raise}"
        self.outcomes["value"] += 1
        found = [_version(one) for one in results]
        looked = dict(zip(errand.looks_at, found[len(errand.fetches) :], strict=True))
        if errand.way is _replaced:
            held = errand.fed
        else:
            start = {index: _array(version) for index, version in looked.items()}
            values, held = errand.needed.effects(errand.tokens, start, errand.fed)
            for index, value in zip(errand.fetches, found, strict=False):
                right = _version(values[index])
                assert value == right, f"node {index}: {value}, where the interpreter has {right}, from {looked}"
        reads = {self._variables[index].name: version for index, version in looked.items()}
        writes = {self._variables[index].name: _version(value) for index, value in held.items()}
        self._history.append(Transaction(name, reads, writes, asked, ended))

    async def _nest(self, session: Session, outer: str, asked: float) -> None:
        """What an op runs: readers, which may see what the outer run sees, and writers."""
        before: list[Transaction] = []
        for _ in range(self._random.randint(1, 3)):
            name = f"{outer}, nested {next(self._clock)}"
            chosen = self._random.randrange(len(self._variables))
            if self._random.random() < 0.5:
                results = (await session.run(self._variables)).results
                reads = {one.name: _version(value) for one, value in zip(self._variables, results, strict=True)}
                one = Transaction(name, reads, {}, asked, next(self._clock), tuple(before))
            else:
                since = next(self._clock)
                fetches = [self._variables[chosen], self._adds[chosen]]
                try:
                    results = (await session.run(fetches, {self._token: _array(draw_token(self._random))})).results
                except StateConflictError:
                    self.outcomes["StateConflictError"] += 1
                    continue
                old, new = [{self._variables[chosen].name: _version(value)} for value in results]
                one = Transaction(name, old, new, since, next(self._clock), tuple(before))
            before.append(one)
            self._history.append(one)

    def check_nothing_is_left(self) -> None:
        """The loop has complained of nothing. Nothing that was fed or made is alive."""
        self._shared.with_traceback(None)  # It would hold what it was raised with.
        assert not self._complaints, f"the loop complains: {self._complaints}"
        held = [value for one in self._arrays if (value := one()) is not None]
        assert not held, f"arrays are held: {held}"
