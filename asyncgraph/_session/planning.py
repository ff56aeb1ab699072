"""The making of a run's plan elsewhere than on the loop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, final

from .._exec.notes import trim_traceback
from .engine import Request

if TYPE_CHECKING:
    from .future import PlainRunFuture


@final
class Planning:
    """The making of a run's plan by a worker, which may let go of this late: it must not keep the run, nor its feeds.

    Fields:
        _future: the run, until the loop has been told.
    """

    def __init__(self, future: PlainRunFuture[Any]) -> None:
        self._future: PlainRunFuture[Any] | None = future

    def make(self) -> None:
        """Makes the plan, and tells the loop. On a worker."""
        future = self._future
        assert future is not None
        post, engine, args = future.resources_to_plan()
        del future
        try:
            request = engine.request(args, self._check_in_time)
        except BaseException as error:
            trim_traceback(error)
            del args
            post(partial(self._tell, None, error))
        else:
            del args
            post(partial(self._tell, request, None))

    def _check_in_time(self) -> None:
        assert self._future is not None
        self._future.check_in_time()

    def _tell(self, request: Request | None, error: BaseException | None) -> None:
        future, self._future = self._future, None
        assert future is not None
        try:
            future.planned(request, error)
        finally:
            del future, error  # As a kept exception would keep this frame.
