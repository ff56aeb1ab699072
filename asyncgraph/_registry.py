"""Backends by name and by their devices, found by entry point, and loaded when first asked for.

`importlib.metadata` costs 28 ms to import, so it is imported then, too.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import TYPE_CHECKING, Final, final

from .abc import Backend, Device
from .errors import AsyncGraphError, BackendNotFoundError, DeviceNotFoundError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "asyncgraph.backends"

PREFERRED: Final = "numpy"
"""The entry point whose backend is asked for a device before the others."""


@final
@dataclass(frozen=True, slots=True)
class Found:
    """What became of an installed backend.

    Fields:
        name: of its entry point.
        origin: what the entry point names, and the distribution that has it; several if they do not agree.
        backend: the object, also if it finds no device; `None` if there is none.
        devices: those that can be used.
        trouble: why there are none; "" if there are some.
        pid: the process in which they were found.
    """

    name: str
    origin: str
    backend: Backend | None = None
    devices: tuple[Device, ...] = ()
    trouble: str = ""
    pid: int = field(default_factory=os.getpid)

    def __str__(self) -> str:
        if self.trouble:
            return f"backend {self.name!r} ({self.origin}) {self.trouble}"
        return f"backend {self.name!r} has {', '.join(map(str, self.devices))}"


@final
@dataclass(frozen=True, slots=True)
class _Lent:
    """A backend that is there for the time being."""

    backend: Backend
    devices: tuple[Device, ...]
    pid: int = field(default_factory=os.getpid)


Placed = tuple[Backend, Device]


@final
class Registry:
    """The backends of this process. Any thread may ask.

    Fields:
        _lent: backends in use by `lend`, the last lent first.
        _entries: the entry points of the group, by name, in the order in which they are asked; several of one name
            if their distributions do not agree; `None` until they are looked for.
        _loaded: what became of each that was asked.
    """

    def __init__(self) -> None:
        # A backend that asks for backends while it is loaded gets an error, not a deadlock.
        self._lock: Final = RLock()
        self._lent: tuple[_Lent, ...] = ()
        self._entries: dict[str, list[EntryPoint]] | None = None
        self._loaded: Final[dict[str, Found]] = {}

    def names(self) -> tuple[str, ...]:
        """The names of all installed backends, whether or not they load."""
        return tuple(self._found())

    def installed(self) -> tuple[Found, ...]:
        """What became of every installed backend, in the order in which they are asked. Loads them all."""
        return tuple([self._load(name) for name in self._found()])

    def backend(self, name: str) -> Backend:
        """The installed backend of that name.

        Raises:
            BackendNotFoundError: none is installed, or it does not load, or finds no device.
        """
        if name not in self._found():
            raise BackendNotFoundError(
                f"no backend named {name!r} is installed\n"
                f"  installed: {', '.join(self._found()) or 'none'}\n"
                f"  a backend is found by its entry point in the group {GROUP!r}"
            )
        found = self._load(name)
        if found.backend is None or found.trouble:
            raise BackendNotFoundError(str(found))
        return found.backend

    def find(self, device: Device) -> Backend:
        """The backend that has that device: the first one asked. Those after it are not loaded.

        Raises:
            DeviceNotFoundError: none has; the message says why for each backend.
        """
        reasons: list[str] = []
        for lent in self._lent:
            if device in lent.devices:
                if not _was_left_behind(lent.backend, lent.pid):
                    return lent.backend
                reasons.append(f"backend {lent.backend.name!r} has it, {_LEFT_BEHIND}")
        for name in self._found():
            found = self._load(name)
            if found.backend is not None and device in found.devices:
                if not _was_left_behind(found.backend, found.pid):
                    return found.backend
                reasons.append(f"backend {name!r} has it, {_LEFT_BEHIND}")
            else:
                reasons.append(str(found))
        lines = [f"no backend has the device {str(device)!r}", *(reasons or ["no backend is installed"])]
        raise DeviceNotFoundError("\n".join(lines).replace("\n", "\n  "))

    def holder_known(self, device: Device) -> Backend | None:
        """The backend that has that device, if that is known without loading one."""
        for lent in self._lent:
            if device in lent.devices:
                return lent.backend
        for name in self._entries or ():
            found = self._loaded.get(name)
            if found is None:
                return None
            if found.backend is not None and device in found.devices:
                return found.backend
        return None

    def find_holder(self, dlpack_type: int, index: int) -> Placed | None:
        """The backend whose arrays are on that device, in DLPack's terms, and its own name of it; `None` if none is."""
        for backend, devices in self._all():
            if backend.capabilities.dlpack == dlpack_type:
                for device in devices:
                    if device.index == index:
                        return backend, device
        return None

    def _all(self) -> Iterator[tuple[Backend, tuple[Device, ...]]]:
        for lent in self._lent:
            yield lent.backend, lent.devices
        for name in self._found():
            found = self._load(name)
            if found.backend is not None:
                yield found.backend, found.devices

    @contextmanager
    def lend(self, backend: Backend) -> Generator[None]:
        """Inside, devices are looked for in that backend before any other, as if it were installed.

        A session keeps the devices that it has found.
        """
        lent = _Lent(backend, tuple(backend.devices()))
        with self._lock:
            self._lent = (lent, *self._lent)
        try:
            yield
        finally:
            with self._lock:
                self._lent = tuple([one for one in self._lent if one is not lent])

    def _found(self) -> dict[str, list[EntryPoint]]:
        if self._entries is None:
            from importlib.metadata import entry_points

            found: dict[str, list[EntryPoint]] = {}
            for entry in entry_points(group=GROUP):
                same = found.setdefault(entry.name, [])
                if entry.value not in [one.value for one in same]:
                    same.append(entry)
            # NumPy first, then by name: which backend answers must not hang on the order of installation.
            self._entries = {name: found[name] for name in sorted(found, key=lambda one: (one != PREFERRED, one))}
        return self._entries

    def _load(self, name: str) -> Found:
        loaded = self._loaded.get(name)
        if loaded is None:
            # Held for seconds while a GPU is looked for: who asks for what is there does not wait for it.
            with self._lock:
                loaded = self._loaded.get(name)
                if loaded is None:
                    loaded = self._loaded[name] = _load(self._found()[name])
        return loaded


def _load(entries: list[EntryPoint]) -> Found:
    """A backend and its devices, or the reason why it cannot be used."""
    entry = entries[0]
    found = Found(entry.name, ", ".join(_described(one) for one in entries))
    if len(entries) > 1:
        return replace(found, trouble="is given by several distributions: uninstall all but one")
    try:
        made: object = entry.load()()
    except Exception as error:  # Whatever a third party raises, the others go on.
        text = f"{type(error).__name__}: {error}{_what_to_install(error, entry)}"
        return replace(found, trouble=f"does not load: {text}")
    if not isinstance(made, Backend):
        return replace(found, trouble=f"is no asyncgraph.abc.Backend: it is {made!r}")
    atexit.register(_close, made, os.getpid())
    try:
        devices = tuple(made.devices())
    except Exception as error:
        trouble = f"finds no device: {_reason(error)}{_what_to_install(error, entry)}"
        return replace(found, backend=made, trouble=trouble)
    return replace(found, backend=made, devices=devices, trouble="" if devices else "finds no device")


_LEFT_BEHIND: Final = (
    "but was looked for before this process was forked, and its threads are the parent's; start processes by the "
    "method 'spawn' or 'forkserver', or fork before a device is looked for"
)


def _was_left_behind(backend: Backend, pid: int) -> bool:
    """Whether a backend has threads that a fork has not taken along, so that nothing that is submitted is ever done."""
    return backend.capabilities.asynchronous and pid != os.getpid()


def _close(backend: Backend, pid: int) -> None:
    # A forked child leaves by here, too, and would give back what is its parent's.
    if os.getpid() == pid:
        backend.close()


def _described(entry: EntryPoint) -> str:
    return entry.value if entry.dist is None else f"{entry.value} of {entry.dist.name} {entry.dist.version}"


def _reason(error: Exception) -> str:
    """What an error of `devices` says: by itself where it is meant for users, else with its type."""
    told = isinstance(error, AsyncGraphError) or (isinstance(error, ModuleNotFoundError) and not error.name)
    return str(error) if told else f"{type(error).__name__}: {error}"


def _what_to_install(error: Exception, entry: EntryPoint) -> str:
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    if entry.dist is not None and error.name.partition(".")[0] == entry.module.partition(".")[0]:
        return f"; install {entry.dist.name} again: it lacks a module of its own"
    return f"; install {error.name!r}"


registry: Final = Registry()
"""The backends of this process."""


def use_backend(backend: Backend) -> AbstractContextManager[None]:
    """A context in which a backend's devices are found as if it were installed, and before those of all others.

    For a backend that no distribution has: a program's own, one under test, or one that is made with arguments. It
    holds for the whole process. A session keeps a device that it has found, so sessions belong inside. The backend
    is not closed at the end.

    Raises:
        TypeError: it is not a backend, but a class, say.
        Exception: the backend finds no device; it is what its `devices` raises.
    """
    if not isinstance(backend, Backend):  # pyright: ignore[reportUnnecessaryIsInstance]  # a class is easily given
        raise TypeError(f"use_backend takes an object of a class of asyncgraph.abc.Backend, not {backend!r}")
    return registry.lend(backend)
