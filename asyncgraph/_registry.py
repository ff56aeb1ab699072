"""Backends by name and by their devices, found by entry point, and loaded when first asked for.

`importlib.metadata` costs 28 ms to import, so it is imported then, too.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Final, final

from .abc import Backend, Device
from .errors import BackendNotFoundError, DeviceNotFoundError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "asyncgraph.backends"

PREFERRED: Final = "numpy"
"""The entry point whose backend is asked for a device before the others."""


@final
@dataclass(frozen=True, slots=True)
class _Loaded:
    """A backend that can be used, and its devices, of which it has at least one."""

    backend: Backend
    devices: tuple[Device, ...]


@final
class Registry:
    """The backends of this process. Any thread may ask.

    Fields:
        _lent: backends that are there for the time being, the last lent first.
        _entries: the entry points of the group, by name, in the order in which they are asked; several of one name
            if their distributions do not agree; `None` until they are looked for.
        _loaded: what became of each: a backend, or why there is none.
    """

    def __init__(self) -> None:
        # A backend that asks for backends while it is loaded gets an error, not a deadlock.
        self._lock: Final = RLock()
        self._lent: tuple[_Loaded, ...] = ()
        self._entries: dict[str, list[EntryPoint]] | None = None
        self._loaded: Final[dict[str, _Loaded | str]] = {}

    def names(self) -> tuple[str, ...]:
        """The names of all installed backends, whether or not they load."""
        return tuple(self._found())

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
        loaded = self._load(name)
        if isinstance(loaded, str):
            raise BackendNotFoundError(loaded)
        return loaded.backend

    def find(self, device: Device) -> Backend:
        """The backend that has that device: the first one asked. Those after it are not loaded.

        Raises:
            DeviceNotFoundError: none has; the message says why for each backend.
        """
        for lent in self._lent:
            if device in lent.devices:
                return lent.backend
        reasons: list[str] = []
        for name in self._found():
            loaded = self._load(name)
            if isinstance(loaded, str):
                reasons.append(loaded)
            elif device in loaded.devices:
                return loaded.backend
            else:
                reasons.append(f"backend {name!r} has {', '.join(map(str, loaded.devices))}")
        lines = [f"no backend has the device {str(device)!r}", *(reasons or ["no backend is installed"])]
        raise DeviceNotFoundError("\n".join(lines).replace("\n", "\n  "))

    @contextmanager
    def lend(self, backend: Backend) -> Generator[None]:
        """Inside, devices are looked for in that backend before any other, as if it were installed.

        A session keeps the devices that it has found.
        """
        lent = _Loaded(backend, tuple(backend.devices()))
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

    def _load(self, name: str) -> _Loaded | str:
        with self._lock:
            loaded = self._loaded.get(name)
            if loaded is None:
                loaded = self._loaded[name] = _load(self._found()[name])
            return loaded


def _load(entries: list[EntryPoint]) -> _Loaded | str:
    """A backend and its devices, or the reason why it cannot be used."""
    entry, *others = entries
    if others:
        given = ", ".join(_described(one) for one in entries)
        return f"several distributions give a backend {entry.name!r}: {given}; uninstall all but one"
    what = f"backend {entry.name!r} ({_described(entry)})"
    try:
        made: object = entry.load()()
        if not isinstance(made, Backend):
            return f"{what} is no asyncgraph.abc.Backend: it is {made!r}"
        devices = tuple(made.devices())
    except Exception as error:  # Whatever a third party raises, the others go on.
        return f"{what} does not load: {type(error).__name__}: {error}{_what_to_install(error, entry)}"
    if not devices:
        return f"{what} finds no device"
    return _Loaded(made, devices)


def _described(entry: EntryPoint) -> str:
    return entry.value if entry.dist is None else f"{entry.value} of {entry.dist.name} {entry.dist.version}"


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
