"""What an exception of a kernel or a user op is told: which node, with what, where, and who built it."""

from __future__ import annotations

import inspect
import os
from contextlib import suppress
from pathlib import Path
from threading import Lock
from types import FrameType
from typing import Any, Final, cast

import numpy as np

from .._graph.control import CONTROL_OPS, FORCED
from .._graph.exchange import dtype_name
from .._graph.node import Node
from .._graph.spec import intern_spec
from .._plan.program import Placement
from .._plan.segment import Segment

_MARK: Final = "asyncgraph: "
_HOOK_MARK: Final = "asyncgraph, a hook: "
_PACKAGE: Final = str(Path(__file__).resolve().parent.parent) + os.sep
_CAN_GO_ON: Final = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_lock: Final = Lock()
"""Two runs may raise one exception object at once; it gets one note all the same."""


def add_node_note(error: BaseException, node: Node, where: Placement | None, operands: list[Any] | None = None) -> None:
    """Gives `error` the one note about `node`; a note from another run of the same exception object goes.

    `operands` are the values it was given, if they are still there: their specs say more than the graph's.
    """
    specs = [repr(one.spec) for one in node.inputs] if operands is None else [described(one, where) for one in operands]
    lines = [
        f"{_MARK}node {node.name!r} ({node.op.name}) failed",
        f"  inputs: {', '.join(specs) or 'none'}",
        f"  device: {'host' if where is None else where.device}",
        f"  built at: {node.site or 'unknown'}",
    ]
    _replace_note(error, "\n".join(lines))


def add_segment_note(error: BaseException, segment: Segment, where: Placement) -> None:
    """Gives `error`, which a device reported some time later, the note about what it had been given to do."""
    nodes = [one.node for one in segment.instructions]
    names = [repr(one.name) for one in (nodes if len(nodes) <= 4 else (*nodes[:2], *nodes[-2:]))]
    if len(nodes) > 4:
        names.insert(2, "...")
    lines = [
        f"{_MARK}{where.device} reported this after it was given {', '.join(names)}",
        "  a device reports an error some time later, to whoever waits for it: it may be another run's",
        f"  the last was built at: {nodes[-1].site or 'unknown'}",
    ]
    _replace_note(error, "\n".join(lines))


def explain_hook(error: BaseException, what: str) -> None:
    """Gives `error` the one note about the hook that raised it, besides the one about a node, if it has that."""
    _replace_note(error, f"{_HOOK_MARK}{what}", _HOOK_MARK)


def has_note(error: BaseException) -> bool:
    """Whether `error` has been told what it belongs to."""
    return any(one.startswith(_MARK) for one in _notes(error))


def explain_call(error: BaseException, node: Node, args: list[Any], home: Placement | None = None) -> None:
    """Tells an error of a user's function which node it was, and on which device its arrays are, `None` for the host.

    Clears `args`: a kept error does not keep them.
    """
    if node.op in CONTROL_OPS and has_note(error):
        add_enclosing_line(error, node)  # It is of a node that this one ran.
    else:
        add_node_note(error, node, home, args)
    args.clear()
    trim_traceback(error)


def add_enclosing_line(error: BaseException, node: Node) -> None:
    """Tells `error`, which has a note about a node, that `node` ran that one."""
    if node.op is FORCED:
        return  # It is in no graph: what needed the other one first says nothing about it.
    _add_line(error, f"run by {node.name!r} ({node.op.name}), built at: {node.site or 'unknown'}")


def add_failure_line(error: BaseException, node_name: str, other: BaseException) -> None:
    """Tells `error`, which ended a run, of another failure in it."""
    _add_line(error, f"also failed: {node_name!r}: {_text(other)}")


def _add_line(error: BaseException, line: str) -> None:
    with _lock:
        notes = _notes(error)
        for index, note in enumerate(notes):
            if note.startswith(_MARK):
                notes[index] = f"{note}\n  {line}"
                break
        else:
            notes.append(_MARK + line)  # It was ended from outside, by its deadline perhaps, and blames no node.
        _set_notes(error, notes)


def described(value: Any, where: Placement | None = None) -> str:
    """The spec of an array, on the host or that device, or the type of anything else."""
    if isinstance(value, (np.ndarray, np.generic)):
        array = cast("np.ndarray[Any, Any]", value)
        return repr(intern_spec(array.dtype, array.shape))
    if where is not None and not where.on_host:
        with suppress(Exception):  # It may be no array, but of a user's class.
            return f"{dtype_name(value)}[{','.join([str(one) for one in value.shape])}]"
    return type(value).__name__


def trim_traceback(error: BaseException) -> None:
    """Takes this package's own frames off the outer end of a traceback: they hold the run, and tell users nothing.

    They are cleared as well: the frame of a user's function leads back to them.
    """
    forget_values(error)
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None and _is_ours(traceback.tb_frame):
        traceback = traceback.tb_next
    # Not by assignment, which a user's class of exception may forbid.
    BaseException.with_traceback(error, traceback)


def forget_values(error: BaseException) -> None:
    """Clears this package's own frames in a traceback, so that whoever keeps `error` keeps no values of a run."""
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        # Clearing the frame of a coroutine that has gone on since would end it.
        if _is_ours(frame) and not frame.f_code.co_flags & _CAN_GO_ON:
            with suppress(RuntimeError):  # It is running: it is one of those that called this.
                frame.clear()
        traceback = traceback.tb_next


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_PACKAGE)


def _replace_note(error: BaseException, note: str, mark: str = _MARK) -> None:
    with _lock:
        _set_notes(error, [*[one for one in _notes(error) if not one.startswith(mark)], note])


def _notes(error: BaseException) -> list[str]:
    return [one for one in getattr(error, "__notes__", ()) if isinstance(one, str)]


def _set_notes(error: BaseException, notes: list[str]) -> None:
    # Not by assignment, nor by `add_note`: a user's class of exception may forbid either.
    object.__setattr__(error, "__notes__", notes)


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # A user's class: its failure must not become the run's.
        return type(error).__name__
    return f"{type(error).__name__}: {text}"
