"""Public failures between sync and async: coroutines that travel as values, loops that run already, foreign threads."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph.errors import SessionLoopError, SpecTypeError


async def async_fn(x: int) -> int:
    await asyncio.sleep(0)
    return x + 1


class AsyncCallable:
    async def __call__(self, x: int) -> int:
        return await async_fn(x)


class Awaitable:
    def __await__(self) -> Any:
        return async_fn(1).__await__()


def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def decorated(*args: Any) -> Any:
        return function(*args)

    return decorated


def returns_concurrent_future(x: int) -> Future[int]:
    future: Future[int] = Future()
    threading.Timer(0.01, future.set_result, [x + 1]).start()
    return future


def returns_task(x: int) -> asyncio.Task[int]:
    return asyncio.ensure_future(async_fn(x))


CALLABLES: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
    ("async def", async_fn, {}),
    ("partial", functools.partial(async_fn), {}),
    ("object", AsyncCallable(), {}),
    ("partial of an object", functools.partial(AsyncCallable()), {}),
    ("bound method", AsyncCallable().__call__, {}),
    ("lambda", lambda x: async_fn(x), {}),
    ("decorated", decorate(async_fn), {}),
    ("lru_cache", functools.lru_cache(async_fn), {}),
    ("concurrent future", returns_concurrent_future, {}),
    ("task", returns_task, {"where": "inline"}),
    ("own awaitable", lambda x: Awaitable(), {}),
    ("coroutine of a coroutine", lambda x: _twice(x), {}),
]


async def _twice(x: int) -> Any:
    return async_fn(x)


@pytest.mark.parametrize(("function", "options"), [one[1:] for one in CALLABLES], ids=[one[0] for one in CALLABLES])
async def test_ag_151_what_can_be_awaited_is_awaited_whatever_made_it(
    function: Callable[..., Any], options: dict[str, Any]
) -> None:
    """`iscoroutinefunction` is False for many that give coroutines: https://github.com/python/cpython/issues/98590,
    https://github.com/jd/tenacity/pull/657, https://github.com/omnilib/aioitertools/issues/4,
    https://github.com/PrefectHQ/fastmcp/pull/3438.
    """
    if isinstance(function, functools._lru_cache_wrapper):
        function = functools.lru_cache(async_fn)  # a coroutine is awaited once
    with ag.Graph() as graph:
        node = ag.op(**options)(function).node(1)
    async with ag.Session(graph) as session:
        assert (await session.run(node)).results == 2


@pytest.mark.parametrize(
    "function",
    [one[1] for one in CALLABLES if one[0] not in ("task", "lru_cache")],
    ids=[one[0] for one in CALLABLES if one[0] not in ("task", "lru_cache")],
)
def test_ag_151_a_blocking_session_awaits_them_as_well(function: Callable[..., Any]) -> None:
    """The same without a running loop: https://github.com/python/cpython/issues/98590."""
    with ag.Graph() as graph:
        node = ag.op(function).node(1)
    with ag.BlockingSession(graph) as session:
        assert session.run(node).results == 2


async def generate(x: int) -> AsyncIterator[int]:
    yield x


class Generating:
    async def __call__(self, x: int) -> AsyncIterator[int]:
        yield x


@pytest.mark.parametrize("function", [generate, functools.partial(generate), Generating()])
def test_ag_151_an_async_generator_is_refused_when_the_op_is_made(function: Callable[..., Any]) -> None:
    """The same sources: an op gives one value."""
    with pytest.raises(SpecTypeError, match="is an async generator: an op gives one value"):
        ag.op(function)


async def test_ag_152_a_blocking_run_inside_a_running_loop_says_to_await() -> None:
    """asyncio.run fails in notebooks: https://github.com/jupyter/notebook/issues/4312,
    https://github.com/ipython/ipython/issues/11338.
    """
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="x")
        y = x + 1.0
    async with ag.Session(graph) as session:
        assert (await session.run(y, {x: 1.0})).results == 2.0
        with pytest.raises(SessionLoopError, match=r"await session\.run"):
            session.run_blocking(y, {x: 1.0})
        assert (await session.run(y, {x: 1.0})).results == 2.0
    with ag.BlockingSession(graph) as blocking, pytest.raises(RuntimeError, match=r"await session\.run"):
        blocking.run(y, {x: 1.0})


async def test_ag_155_a_future_that_another_thread_resolves_gives_its_value() -> None:
    """Resolving in a foreign thread failed silently: https://github.com/microsoft/onnxruntime/issues/24200,
    https://github.com/microsoft/onnxruntime/pull/16760.
    """
    with ThreadPoolExecutor(1) as pool, ag.Graph() as graph:
        node = ag.op(lambda x: pool.submit(lambda: x * 2))(ag.placeholder(None, name="x"))
        async with ag.Session(graph) as session:
            assert (await session.run(node, {"x": 21})).results == 42


async def test_ag_155_an_op_that_resolves_a_future_of_the_loop_fails_in_debug_mode_and_does_not_hang() -> None:
    """The user's error of the same case, and the way that `asyncgraph.op` names:
    https://github.com/microsoft/onnxruntime/issues/24200.
    """
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    wrong: asyncio.Future[int] = loop.create_future()
    wrong.add_done_callback(lambda _: None)
    right: asyncio.Future[int] = loop.create_future()

    async def wait() -> int:
        return await right

    with ag.Graph() as graph:
        fails = ag.op(lambda: wrong.set_result(1)).node()
        resolves = ag.op(lambda: loop.call_soon_threadsafe(right.set_result, 2)).node()
        waits = ag.op(wait).node()
    async with asyncio.timeout(5), ag.Session(graph) as session:
        with pytest.raises(RuntimeError, match="Non-thread-safe operation"):
            await session.run(fails)
        assert (await session.run([waits, resolves])).results[0] == 2
