"""How many threads a matrix product may use: a setting of the process, made while sessions are open.

NumPy's products round by the number of threads, so it is set by configuration, never by load. Two
threads for small matrices beside another busy thread cost up to 25 times the time of one.
"""

from __future__ import annotations

from importlib import import_module
from threading import Lock
from typing import Final, Protocol, final


class _Library(Protocol):
    """What `threadpoolctl`, which has no types, knows of a library."""

    num_threads: int

    def set_num_threads(self, num_threads: int) -> None: ...


@final
class _Blas:
    """The setting, and who wants it.

    Fields:
        _wanted: what each open session asks for, by identity of its token.
        _libraries: those that are loaded; looked for once a process, in a millisecond.
        _before: what they were set to, while they are set.
    """

    def __init__(self) -> None:
        self._lock: Final = Lock()
        self._wanted: Final[dict[object, int]] = {}
        self._libraries: list[_Library] | None = None
        self._before: Final[list[tuple[_Library, int]]] = []

    def claim(self, token: object, threads: int) -> None:
        """Sets the number of threads, until `release(token)`. Of several claims, the first is in force."""
        with self._lock:
            self._wanted[token] = threads
            if len(self._wanted) > 1:
                return
            if self._libraries is None:
                controller = import_module("threadpoolctl").ThreadpoolController()
                self._libraries = list(controller.select(user_api="blas").lib_controllers)
            for library in self._libraries:
                self._before.append((library, library.num_threads))
                library.set_num_threads(threads)

    def release(self, token: object) -> None:
        """Takes a claim back; after the last one, things are as they were."""
        with self._lock:
            if self._wanted.pop(token, None) is None or self._wanted:
                return
            for library, threads in self._before:
                library.set_num_threads(threads)
            self._before.clear()


blas: Final = _Blas()
