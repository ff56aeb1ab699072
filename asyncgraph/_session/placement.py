"""Which backend and device a session runs a node on."""

from __future__ import annotations

import logging
import os
from typing import Final, final

from .._graph.node import Node
from .._graph.scopes import canonical_device
from .._plan.program import Placement
from .._registry import Registry
from ..abc import Device
from ..errors import DeviceNotFoundError, FeedTypeError

_log: Final = logging.getLogger("asyncgraph")

REQUIRE_GPU: Final = "ASYNCGRAPH_REQUIRE_GPU"
"""The environment variable that turns it into an error if a GPU that is asked for cannot be used."""


def gpu_required() -> bool:
    """Whether that variable is set, to anything but "" and 0. It is read each time."""
    return os.environ.get(REQUIRE_GPU, "") not in ("", "0")


@final
class Placer:
    """Says which placement a requested device means, to any thread.

    There is one placement for each device, so that placements can be compared as objects; devices that are replaced
    by the default one share its.

    Raises:
        GraphError: `default` is not the name of a device.
    """

    # Fields:
    #   _found: by requested name. No lock is held while a device is looked for, which may take seconds.
    #   _told: devices that the log was told are not there, with who found that out first.

    def __init__(self, registry: Registry, default: str, soft: bool) -> None:
        self._registry: Final = registry
        self._default: Final = canonical_device(default) or default
        self._soft: Final = soft
        self._found: Final[dict[str, Placement]] = {}
        self._told: Final[dict[str, object]] = {}

    def __call__(self, requested: str | None) -> Placement:
        """The placement of a device, by its canonical name, or of the default one.

        Raises:
            DeviceNotFoundError: there is no such device, and nodes may not run elsewhere.
        """
        name = requested or self._default
        found = self._found.get(name)
        return self._find(name) if found is None else found

    def is_prompt(self, requested: str | None) -> bool:
        """Whether the placement of a device can be had, and used while a plan is made, without waiting."""
        name = requested or self._default
        found = self._found.get(name)
        if found is not None:
            return not found.is_asynchronous
        kind, _, index = name.partition(":")
        backend = self._registry.holder_known(Device(kind, int(index)))
        # NumPy's is asked first and has it: not to be loaded yet is no reason to wait.
        return name == "cpu:0" if backend is None else not backend.capabilities.asynchronous

    def holder_of(self, on: tuple[int, int], node: Node) -> Placement:
        """The placement of the device that an array fed for `node` is on, in DLPack's terms.

        Raises:
            FeedTypeError: no backend has that device.
        """
        holder = self._registry.find_holder(*on)
        if holder is None:
            raise FeedTypeError(
                f"the value fed for {node.name!r} is on a device that no backend has: DLPack's type {on[0]}, "
                f"number {on[1]}\n  expected: {node.spec!r} on the host, or on a device of a backend\n"
                "  what there is, and why no more: python -m asyncgraph doctor"
            )
        backend, device = holder
        found = self._found.setdefault(str(device), Placement(backend, device))
        if found.backend is not backend:
            raise FeedTypeError(
                f"the value fed for {node.name!r} is on {device} of the backend {backend.name!r}, but what this "
                f"session runs for {device} it runs on {found}\n  make the session where that backend can be found"
            )
        return found

    def _find(self, name: str) -> Placement:
        kind, _, index = name.partition(":")
        device = Device(kind, int(index))
        try:
            found = Placement(self._registry.find(device), device)
        except DeviceNotFoundError as error:
            if name == self._default:
                raise DeviceNotFoundError(
                    f"{error}\n  it is where nodes run that ask for no device: give another SessionConfig(device=...)"
                ) from None
            if not self._soft:
                raise DeviceNotFoundError(
                    f"{error}\n  nodes that ask for it run elsewhere with SessionConfig(soft_placement=True)"
                ) from None
            if device.kind == "gpu" and gpu_required():
                raise DeviceNotFoundError(
                    f"{error}\n  nodes that ask for it run nowhere else, as {REQUIRE_GPU} is set in the environment"
                ) from None
            found = self(None)
            if self._told.setdefault(name, mine := object()) is mine:
                _log.warning("nodes placed on %s run on %s instead: %s", name, found.device, error)
        return self._found.setdefault(name, found)
