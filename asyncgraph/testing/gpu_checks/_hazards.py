"""What goes wrong on a card, and that what the backend does about it is enough: the section `hazard`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ._children import call_child
from ._rawkernels import spin
from ._rows import Row, fact, holds
from ._runner import on_a_card
from ._subject import Subject

_COUNT: Final = 1 << 20
_MIB: Final = 1 << 20


def memory_used_again(subject: Subject) -> Iterator[Row]:
    """CuPy gives memory away that another stream still reads, unless its stream waits or the array is kept."""
    # Once before, as kernels are compiled when they are first called, and the wait would be over by then.
    _read_late(subject, waits=True, keeps=True)
    try:
        value: str | float = _read_late(subject, waits=False, keeps=False)
    except AssertionError as error:
        # A stand-in that watches the order says it in this way.
        value = type(error).__name__
    yield fact("read late, unprotected", value, "on a card not 2: CuPy's pool does not look at other streams")
    for name, waits, keeps in (("owner waits", True, False), ("array is kept", False, True)):
        value = _read_late(subject, waits=waits, keeps=keeps)
        yield holds(f"read late, {name}", value == 2, value, "2")


def _read_late(subject: Subject, *, waits: bool, keeps: bool) -> float:
    """The mean of twice an array of ones, read on another stream than it was made on, and after it was dropped."""
    cupy = subject.cupy
    owner, reader = subject.stream(), subject.stream()
    kept: list[Any] = []
    with owner:
        x = cupy.full((_COUNT,), 1, dtype="float32")
        made = subject.event()
        made.record(owner)
    reader.wait_event(made)
    with reader:
        spin(subject, 3e-3)
        y = cupy.multiply(x, 2)
        read = subject.event()
        read.record(reader)
    if waits:
        owner.wait_event(read)
    if keeps:
        kept.append(x)
    del x
    with owner:
        z = cupy.full((_COUNT,), 7, dtype="float32")
        owner.synchronize()
    reader.synchronize()
    with reader:
        mean = float(y.get(stream=reader).mean())
    del kept, z
    return mean


def out_of_memory(subject: Subject) -> Iterator[Row]:
    """What an allocation raises that finds no memory, and that the next one finds some."""
    cupy = subject.cupy
    raised: Exception | None = None
    with subject.memory_limited_to(16 * _MIB):
        try:
            cupy.empty((64 * _MIB,), dtype="uint8")
        except Exception as error:  # Which one is what is asked.
            raised = error.with_traceback(None)
    yield holds("too much memory", isinstance(raised, MemoryError), type(raised).__name__, "a MemoryError")
    total = float(cupy.sum(cupy.full((4,), 1, dtype="float32")).get())
    yield holds("a sum of 4 ones, after that", total == 4, total, "4")


@on_a_card
def lost_context(subject: Subject) -> Iterator[Row]:
    """What CuPy says once a kernel has written where no memory is, in a process of its own."""
    yield from lost_context_rows(call_child(subject, "sticky"))


def lost_context_rows(found: dict[str, object]) -> Iterator[Row]:
    """What is to be thought of what `sticky` found."""
    status = found.pop("eventQuery")
    yield holds("eventQuery", status not in (0, 600), int(str(status)), "an error, such as 700")
    waited = str(found.pop("event.synchronize"))
    yield holds("event.synchronize", waited != "no error", waited, "an error")
    yield fact("event.done", bool(found.pop("event.done")), "False, as CuPy hides the error")
    for name, value in found.items():
        yield fact(name, str(value), "an error: nothing works any more")
