"""The objects that stand for the modules `cupy` and `cupyx`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from . import functions
from .arrays import ndarray
from .errors import CompileException, OutOfMemoryError
from .streams import Device, Event, MemoryPool, Runtime, Stream
from .world import World


def cupy_of(world: World) -> Any:
    """What stands for `cupy` in this world."""

    def of_world(kind: type[Any], module: str) -> Any:
        return type(kind.__name__, (kind,), {"_world": world, "__module__": module})

    stream = of_world(Stream, "cupy.cuda.stream")
    pool = MemoryPool(world)
    array = of_world(ndarray, "cupy")
    world.array_type = array

    def get_current_stream(device_id: int = -1) -> Any:
        here = world.places.here
        entered = here.streams.get(here.device if device_id == -1 else device_id)
        return entered[-1] if entered else stream.null

    cuda = SimpleNamespace(
        Device=of_world(Device, "cupy.cuda.device"),
        Event=of_world(Event, "cupy.cuda.stream"),
        Stream=stream,
        MemoryPool=MemoryPool,
        get_current_stream=get_current_stream,
        runtime=Runtime(world),
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        compiler=SimpleNamespace(CompileException=CompileException),
    )
    stream.null = stream(null=True)
    return SimpleNamespace(
        __name__="cupy",
        __version__="14.2.0",
        ndarray=array,
        cuda=cuda,
        get_default_memory_pool=lambda: pool,
        get_default_pinned_memory_pool=lambda: SimpleNamespace(free_all_blocks=lambda: None),
        **functions.namespace(world),
    )


def cupyx_of(world: World) -> Any:
    """What stands for `cupyx` in this world."""

    class errstate:
        """Does nothing: the stand-in, as CuPy unless it is asked, raises nothing of what it computes."""

        def __init__(self, **options: Any) -> None:
            self._options = options

        def __enter__(self) -> None:
            pass

        def __exit__(self, *exc: object) -> None:
            pass

    def empty_pinned(shape: Any, dtype: Any = float, order: str = "C") -> Any:
        return world.host.empty(shape, dtype, order)

    return SimpleNamespace(__name__="cupyx", errstate=errstate, empty_pinned=empty_pinned)
