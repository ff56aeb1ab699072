"""What nodes of control flow run, where that needs a scheduler: each plan is a run of its own, inside another."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from .._graph.op import Call
from .._plan.control import Body, Conditional, Control, Delayed, Iteration, keys_of, split_key, truth
from .._plan.lower import Instruction
from .._plan.sizes import largest
from .waiting import wait_shielded

if TYPE_CHECKING:
    from .run import Run


def call_of(run: Run, instruction: Instruction) -> Call | None:
    """How to run what a node of control flow runs; `None` for a user op, whose node says it."""
    control = instruction.kernel
    return Call(partial(run_bodies, run, control), is_async=True) if isinstance(control, Control) else None


async def run_bodies(run: Run, control: Control, *operands: Any) -> tuple[Any, ...]:
    """What a node of control flow gives, in a run. On the loop.

    A cancellation is raised when nothing is left of what it has started.

    Raises:
        BaseException: what a node of a body raised, with a note that names it; or a condition is not one boolean.
    """
    if isinstance(control, Conditional):
        return await _chosen(run, control, operands)
    if isinstance(control, Iteration):
        return await _repeated(run, control, operands)
    (delayed,) = operands
    return await _forced(run, delayed)


async def _chosen(run: Run, control: Conditional, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    given, key = split_key(operands[1:], control.draws)
    return await _run(run, control.chosen(operands[0]), given, key)


async def _repeated(run: Run, control: Iteration, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    condition, body = control.bodies
    given, key = split_key(operands, control.draws)
    values, captured = given[: control.count], given[control.count :]
    iteration = 0
    while control.goes_on(iteration):
        keys = keys_of(key, iteration)
        if not truth((await _run(run, condition, values + captured, keys[0]))[0], control.node):
            break
        values = await _run(run, body, values + captured, keys[1])
        iteration += 1
    return values


async def _forced(run: Run, delayed: Delayed) -> tuple[Any, ...]:
    if delayed.begun and not delayed.known:
        if delayed.future is None:
            delayed.future = asyncio.get_running_loop().create_future()
        # If it fails, so does the run, which cancels this.
        await asyncio.shield(delayed.future)
    elif not delayed.known:
        delayed.know(await _run(run, delayed.body, delayed.begin(), delayed.key))
        if delayed.future is not None:
            delayed.future.set_result(None)
    return delayed.values


async def _run(outer: Run, body: Body, given: tuple[Any, ...], key: tuple[int, ...] | None) -> tuple[Any, ...]:
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    values: list[Any] = []
    errors: list[BaseException] = []

    def ended(run: Run) -> None:
        error = run.error()
        if error is None:
            values.extend([run.frame[slot] for slot in body.slots])
        else:
            errors.append(error)
        over.set_result(None)

    make = type(outer)  # This module is below that of runs.
    frame = body.frame(given, key)
    run = make(outer.host, body.plan, frame, copy_context(), largest(given), ended, outer.nested, outer.recorder)
    run.is_urgent = outer.is_urgent
    run.start()
    try:
        try:
            await asyncio.shield(over)
        except CancelledError as error:
            run.stop(error)
            await wait_shielded([over])
            raise
        if errors:
            raise errors[0]
        return tuple(values)
    finally:
        errors.clear()  # What is raised keeps this frame.
        del run
