"""How many threads a matrix product may use: a setting of the process, made while sessions are open.

NumPy's products round by the number of threads, so it is set by configuration, never by load. Two
threads for small matrices beside another busy thread cost up to 25 times the time of one.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


@final
class _Blas:
    """The setting, and who wants it.

    Fields:
        _wanted: what each open session asks for, by identity of its token.
        _controller: finds the libraries, once a process: it reads the list of what is loaded.
        _before: undoes the setting, while there is one.
    """

    def __init__(self) -> None:
        self._lock: Final = Lock()
        self._wanted: Final[dict[object, int]] = {}
        self._controller: ThreadpoolController | None = None
        self._before: list[tuple[object, int]] = []

    def claim(self, token: object, threads: int) -> None:
        """Sets the number of threads, until `release(token)`. Of several claims, the first is in force."""
        with self._lock:
            self._wanted[token] = threads
            if len(self._wanted) > 1:
                return
            if self._controller is None:
                from threadpoolctl import ThreadpoolController

                self._controller = ThreadpoolController()
            for library in self._controller.select(user_api="blas").lib_controllers:
                self._before.append((library, library.num_threads))
                library.set_num_threads(threads)

    def release(self, token: object) -> None:
        """Takes a claim back; after the last one, things are as they were."""
        with self._lock:
            if self._wanted.pop(token, None) is None or self._wanted:
                return
            for library, threads in self._before:
                library.set_num_threads(threads)  # type: ignore[attr-defined]
            self._before.clear()


blas: Final = _Blas()
