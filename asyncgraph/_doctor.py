"""`python -m asyncgraph doctor`: what is installed, which devices can be used, and why a GPU is not."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, cast, final

from ._registry import Found, registry
from ._session.config import SessionConfig

_PACKAGES: Final = ("asyncgraph", "numpy", "anyio", "threadpoolctl")
_EVENT_LOOPS: Final = ("uvloop",)
"""Distributions that have an event loop other than asyncio's own."""

_NO_BACKEND: Final = "no backend for GPUs is installed"
_WORDS: Final = {"None": "none", "''": "''", "True": "yes", "False": "no"}


@final
@dataclass(frozen=True, slots=True)
class BlasReport:
    """A library for matrix products that is loaded.

    Fields:
        library: what it is, such as "openblas".
        version: its version, if it tells.
        threads: how many threads it uses, while no session is open.
        file: where it is.
    """

    library: str
    version: str | None
    threads: int
    file: str


@final
@dataclass(frozen=True, slots=True)
class BackendReport:
    """An installed backend.

    Fields:
        name: of its entry point.
        origin: what the entry point names, and the distribution that has it.
        devices: those that can be used, such as "cpu:0".
        trouble: why there are none; "" if there are some.
        details: what the backend tells of itself.
    """

    name: str
    origin: str
    devices: tuple[str, ...]
    trouble: str
    details: Mapping[str, object]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What `doctor` found. As JSON it is an object with these keys; later versions may add some.

    Fields:
        versions: of asyncgraph, Python and what asyncgraph needs, by name; `None` for what is not installed.
        platform: the operating system and the processor.
        event_loops: versions of those that sessions may run on, by name; `None` for one that is not installed.
        cores: of the machine.
        usable_cores: those that this process may use: a session has a worker for each.
        blas: the libraries for matrix products.
        session_blas_threads: what these are set to while a session is open, by default; `None` if to nothing.
        backends: those that are installed, in the order in which they are asked for a device.
        gpus: the devices of kind "gpu" that can be used.
        no_gpu: why there are none, a line for each backend that has a reason; "" if there are some.
    """

    versions: Mapping[str, str | None]
    platform: str
    event_loops: Mapping[str, str | None]
    cores: int
    usable_cores: int
    blas: tuple[BlasReport, ...]
    session_blas_threads: int | None
    backends: tuple[BackendReport, ...]
    gpus: tuple[str, ...]
    no_gpu: str


def examine() -> Report:
    """Loads every installed backend, has each look for its devices, and tells what became of it."""
    config = SessionConfig()
    backends = tuple([_backend(found) for found in registry.installed()])
    gpus = tuple([device for one in backends for device in one.devices if device.startswith("gpu:")])
    reasons = [f"{one.name} {one.trouble}" for one in backends if one.trouble]
    return Report(
        versions={"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
        platform=platform.platform(),
        event_loops={"asyncio": platform.python_version(), **{name: _version(name) for name in _EVENT_LOOPS}},
        cores=os.cpu_count() or 1,
        usable_cores=config.worker_count,
        blas=tuple(_blas()),
        session_blas_threads=config.blas_threads,
        backends=backends,
        gpus=gpus,
        no_gpu="" if gpus else "\n".join(reasons or [_NO_BACKEND]),
    )


def as_json(report: Report) -> str:
    """The report as a JSON object."""
    return json.dumps(asdict(report), indent=2, default=str)


def as_text(report: Report) -> str:
    """The report for people, in lines of two columns."""
    rows = list(_rows(report))
    width = max(len(label) for label, _ in rows) + 2
    lines: list[str] = []
    for label, text in rows:
        first, *others = text.splitlines() or [""]
        lines += [f"{label:{width}}{first}", *[" " * width + line for line in others]]
    return "\n".join(lines)


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _blas() -> Iterator[BlasReport]:
    libraries: list[dict[str, Any]] = import_module("threadpoolctl").threadpool_info()
    for one in libraries:
        if one["user_api"] == "blas":
            yield BlasReport(one["internal_api"], one["version"], one["num_threads"], one["filepath"])


def _backend(found: Found) -> BackendReport:
    details: Mapping[str, object] = {}
    if found.backend is not None:
        try:
            details = dict(found.backend.details())
        except Exception as error:  # It never raises, says the contract; a doctor is called when things are not so.
            details = {"details": f"{type(error).__name__}: {error}"}
    return BackendReport(found.name, found.origin, tuple(map(str, found.devices)), found.trouble, details)


def _rows(report: Report) -> Iterator[tuple[str, str]]:
    """What is said, and of what."""
    for name, number in report.versions.items():
        yield name, number or "not installed"
    yield "platform", report.platform
    yield "event loops", ", ".join(f"{name} {number or 'not installed'}" for name, number in report.event_loops.items())
    yield "cores", f"{report.cores}, of which this process may use {report.usable_cores}"
    yield "BLAS", "\n".join(_blas_text(one, report.session_blas_threads) for one in report.blas) or "none known"
    for one in report.backends:
        details = [f"{name.replace('_', ' ')}: {_flat(value)}" for name, value in one.details.items()]
        yield f"backend {one.name}", "\n".join([", ".join(one.devices) or one.trouble, one.origin, *details])
    why = f"none: {report.no_gpu}" if report.no_gpu == _NO_BACKEND else "none, for the reason given above"
    yield "GPU", ", ".join(report.gpus) or why


def _blas_text(blas: BlasReport, in_sessions: int | None) -> str:
    while_open = "" if in_sessions is None else f" ({in_sessions} while a session is open)"
    return f"{blas.library} {blas.version or 'of unknown version'}, threads: {blas.threads}{while_open}"


def _flat(value: object) -> str:
    """A value that JSON has, on one line."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return ", ".join(f"{name} {_flat(one)}" for name, one in pairs) or "none"
    if isinstance(value, (list, tuple)):
        return "; ".join(map(_flat, cast("list[object]", value))) or "none"
    return _WORDS.get(repr(value), str(value))
