"""Backends by the kind of their devices, found by entry point, and loaded when first asked for.

`importlib.metadata` costs 28 ms to import, so it is imported then, too.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final, final

from .abc import Backend, Device
from .errors import BackendNotFoundError, DeviceNotFoundError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "asyncgraph.backends"

PREFERRED: Final = "numpy"
"""The entry point whose backend is asked for a device before the others."""


@final
class Registry:
    """The backends of this process.

    Fields:
        _entries: the entry points of the group, by name; `None` until they are looked for.
        _loaded: what became of each: a backend and its devices, or why there is none.
    """

    def __init__(self) -> None:
        self._lock: Final = Lock()
        self._entries: dict[str, EntryPoint] | None = None
        self._loaded: Final[dict[str, tuple[Backend, tuple[Device, ...]] | str]] = {}

    def names(self) -> tuple[str, ...]:
        """The names of all installed backends, whether or not they load."""
        return tuple(self._found())

    def backend(self, name: str) -> Backend:
        """The backend of that name.

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
        return loaded[0]

    def find(self, device: Device) -> Backend:
        """The backend that has that device.

        Raises:
            DeviceNotFoundError: none has; the message says why for each backend.
        """
        reasons: list[str] = []
        for name in self._found():
            loaded = self._load(name)
            if isinstance(loaded, str):
                reasons.append(loaded)
            elif device in loaded[1]:
                return loaded[0]
            else:
                reasons.append(f"backend {name!r} has {', '.join(map(str, loaded[1]))}")
        lines = [f"no backend has the device {str(device)!r}", *[f"  {one}" for one in reasons]]
        raise DeviceNotFoundError("\n".join(lines))

    def _found(self) -> dict[str, EntryPoint]:
        if self._entries is None:
            from importlib.metadata import entry_points

            found = {entry.name: entry for entry in entry_points(group=GROUP)}
            # NumPy first, then by name: which backend answers must not hang on the order of installation.
            self._entries = {name: found[name] for name in sorted(found, key=lambda one: (one != PREFERRED, one))}
        return self._entries

    def _load(self, name: str) -> tuple[Backend, tuple[Device, ...]] | str:
        with self._lock:
            loaded = self._loaded.get(name)
            if loaded is None:
                loaded = self._loaded[name] = _load(self._found()[name])
            return loaded


def _load(entry: EntryPoint) -> tuple[Backend, tuple[Device, ...]] | str:
    """A backend and its devices, or one line that says why it cannot be used."""
    source = f" of {entry.dist.name} {entry.dist.version}" if entry.dist is not None else ""
    what = f"backend {entry.name!r} ({entry.value}{source})"
    try:
        made = entry.load()()
        if not isinstance(made, Backend):
            return f"{what} is no asyncgraph.abc.Backend"
        devices = tuple(made.devices())
    except Exception as error:  # Whatever a third party raises, the others go on.
        missing = f"; install {error.name!r}" if isinstance(error, ModuleNotFoundError) and error.name else ""
        return f"{what} does not load: {type(error).__name__}: {error}{missing}"
    if not devices:
        return f"{what} finds no device"
    return made, devices


registry: Final = Registry()
"""The backends of this process."""
