"""Steps as straight-line Python: one line a step, values in local names.

A local name takes over from an operand that dies in the same line, so that a chain frees its values at
no cost; other values are deleted where they are last read. The first step is on line 2, which is how a
traceback leads to its node.
"""

from __future__ import annotations

import linecache
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from operator import itemgetter
from types import CodeType, FrameType, FunctionType
from typing import Any, Final, cast, final

from .host_kernels import same

_Step = tuple[Callable[..., Any], tuple[int, ...], int, tuple[int, ...]]

FIRST_LINE: Final = 2
"""The line of the first step; each has one."""

_serial = count(1)
_shown: deque[str] = deque()
_MOST_SHOWN: Final = 64


@final
@dataclass(frozen=True, slots=True)
class Emitted:
    """Steps as a function of the frame, with its source."""

    function: Callable[[list[Any]], None]
    code: CodeType
    filename: str
    source: str
    rewrite: Callable[[], _Writer]

    def arguments(self, position: int, frame: FrameType) -> list[Any]:
        """What the step at `position` was called with, in a frame of the function that failed there."""
        # Written again rather than kept: failures are rare, and names would double a plan's size.
        names = self.rewrite().arguments[position]
        return [eval(name, frame.f_globals, frame.f_locals) for name in names]


def emit(steps: Sequence[_Step], template: Sequence[Any], feeds: int, kept: frozenset[int]) -> Emitted:
    """The function that computes `steps` on a frame.

    Args:
        steps: kernel, operand slots, result slot, slots that die; in order.
        template: the frame before a run: what is not `None` there is the same in every run.
        feeds: how many of the first slots are fed.
        kept: slots that are read after the last step.
    """
    rewrite = partial(_written, steps, template, feeds, kept)
    writer = rewrite()
    lines = ["def chunk(f):", *writer.lines]
    filename = f"<asyncgraph chunk {next(_serial)}>"
    source = "\n ".join(lines) + "\n"
    exec(compile(source, filename, "exec"), writer.names)
    function: FunctionType = writer.names["chunk"]
    return Emitted(function, function.__code__, filename, source, rewrite)


def show_source(emitted: Emitted) -> None:
    """Lets tracebacks show the lines of a function that failed. The last 64 are remembered."""
    if emitted.filename in linecache.cache:
        return
    source = emitted.source
    linecache.cache[emitted.filename] = (len(source), None, source.splitlines(keepends=True), emitted.filename)
    _shown.append(emitted.filename)
    while len(_shown) > _MOST_SHOWN:
        linecache.cache.pop(_shown.popleft(), None)


def _written(steps: Sequence[_Step], template: Sequence[Any], feeds: int, kept: frozenset[int]) -> _Writer:
    writer = _Writer(steps, template, feeds, kept)
    for step in steps:
        writer.write(*step)
    return writer


@final
class _Writer:
    """What is known while lines are written.

    Fields:
        lines: one for each step.
        arguments: for each line, the names that its kernel is called with.
        names: the globals of the function: kernels, and values that are the same in every run.
        _local: the local name of each slot that has one.
        _free: local names whose value is gone.
        _uses: how often each slot is still read in the chunk.
        _own: slots that are filled in the chunk.
    """

    def __init__(self, steps: Sequence[_Step], template: Sequence[Any], feeds: int, kept: frozenset[int]) -> None:
        self.names: Final[dict[str, Any]] = {}
        self.lines: Final[list[str]] = []
        self.arguments: Final[list[list[str]]] = []
        self._template = template
        self._feeds = feeds
        self._kept = kept
        self._kernels: dict[int, str] = {}
        self._local: dict[int, str] = {}
        self._free: list[str] = []
        self._fresh = count()
        self._uses: dict[int, int] = {}
        self._dies: set[int] = {slot for step in steps for slot in step[3]}
        self._own: set[int] = {step[2] for step in steps}
        for _, operands, _, _ in steps:
            for slot in operands:
                self._uses[slot] = self._uses.get(slot, 0) + 1

    def write(self, kernel: Callable[..., Any], operands: tuple[int, ...], out: int, dead: tuple[int, ...]) -> None:
        """Writes the line of one step."""
        before: list[str] = []
        after: list[str] = []
        args = [self._read(slot, dead, before, after) for slot in operands]
        call = self._call(kernel, args)
        gone = [name for name in (self._local.pop(slot, None) for slot in dict.fromkeys(dead)) if name is not None]
        targets: list[str] = []
        if out in self._kept:
            targets.append(f"f[{out}]")
        if self._uses.get(out):
            # The result takes over the name of an operand that dies, which frees that.
            name = gone.pop() if gone else self._name()
            self._local[out] = name
            targets.append(name)
        if gone:
            after.append(f"del {','.join(gone)}")
            self._free += gone
        targets_text = "".join(f"{one}=" for one in targets)
        self.lines.append(";".join([*before, f"{targets_text}{call}", *after]))
        self.arguments.append(args)

    def _read(self, slot: int, dead: tuple[int, ...], before: list[str], after: list[str]) -> str:
        name = self._local.get(slot)
        if name is not None:
            return name
        if slot >= self._feeds and self._template[slot] is not None:
            name = f"c{slot}"
            self.names[name] = self._template[slot]
            return name
        dies_here = slot in self._dies and slot not in self._own
        if self._uses[slot] > 1:
            name = self._local[slot] = self._name()
            before.append(f"{name}=f[{slot}]" + (f";f[{slot}]=None" if dies_here else ""))
            return name
        if dies_here and slot in dead:
            after.append(f"f[{slot}]=None")
        return f"f[{slot}]"

    def _call(self, kernel: Callable[..., Any], args: list[str]) -> str:
        """What a step computes. What hands values on, of which training has many, is written without a call."""
        if kernel is same:
            return args[0]
        if isinstance(kernel, itemgetter):
            (key,) = cast("Any", kernel).__reduce__()[1]
            # Ints of more than 4300 digits have no repr.
            if key.__class__ is str or (key.__class__ is int and -sys.maxsize <= key <= sys.maxsize):
                return f"{args[0]}[{key!r}]"
        return f"{self._kernel(cast('Callable[..., Any]', kernel))}({','.join(args)})"

    def _kernel(self, kernel: Callable[..., Any]) -> str:
        name = self._kernels.get(id(kernel))
        if name is None:
            name = self._kernels[id(kernel)] = f"k{len(self._kernels)}"
            self.names[name] = kernel
        return name

    def _name(self) -> str:
        return self._free.pop() if self._free else f"v{next(self._fresh)}"
