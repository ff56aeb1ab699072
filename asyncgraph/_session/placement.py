"""Which backend and device a session runs a node on."""

from __future__ import annotations

import logging
from typing import Final, final

from .._graph.scopes import canonical_device
from .._plan.program import Placement
from .._registry import Registry
from ..abc import Device
from ..errors import DeviceNotFoundError

_log: Final = logging.getLogger("asyncgraph")


@final
class Placer:
    """Answers which placement a requested device means. One object for each device, so that placements are compared as objects."""

    def __init__(self, registry: Registry, default: str, soft: bool) -> None:
        self._registry: Final = registry
        self._default: Final = canonical_device(default) or default
        self._soft: Final = soft
        self._found: Final[dict[str, Placement]] = {}

    def __call__(self, requested: str | None) -> Placement:
        """The placement of a device, or of the default one.

        Raises:
            DeviceNotFoundError: there is no such device, and nodes may not run elsewhere.
        """
        name = requested or self._default
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._find(name)
        return found

    def _find(self, name: str) -> Placement:
        kind, _, index = name.partition(":")
        device = Device(kind, int(index))
        try:
            return Placement(self._registry.find(device), device)
        except DeviceNotFoundError as error:
            if not self._soft or name == self._default:
                error.add_note("or run such nodes elsewhere: SessionConfig(soft_placement=True)")
                raise
            _log.warning("nodes placed on %s run on %s instead: %s", name, self._default, error)
            return self(None)
