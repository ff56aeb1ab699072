"""Kernels compute what NumPy does, on the stand-in for CuPy: of the conformance kit's cases, and where CuPy differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from asyncgraph.testing._kit.cases import CASES, DTYPES, OPS
from asyncgraph.testing._kit.tolerances import is_same
from asyncgraph_cupy._adapted import ADAPTED
from asyncgraph_cupy._cuda_api import CudaApi
from asyncgraph_cupy._fused import FUSED
from asyncgraph_cupy._kernels import make_kernel
from asyncgraph_cupy._updates import UPDATES

from ...standin.world import World
from .expected import DOUBTFUL
from .kernel_calls import HERE, HostArray, Tried, compute, quiet, tried


@pytest.fixture(scope="module")
def world() -> World:
    # The devices run behind by as much as they can, and what is looked at here waits for them.
    return World(devices=1, seed=1, eagerness=0.0)


@pytest.fixture(scope="module")
def api(world: World) -> CudaApi:
    return CudaApi(world.cupy, world.cupyx)


Calling = Callable[..., Any]


@pytest.fixture
def call(api: CudaApi) -> Calling:
    """Calls the kernel of an op with NumPy arrays and Python numbers; gives NumPy arrays."""

    def called(op: str, *operands: Any, **params: Any) -> Any:
        kernel = make_kernel(api, op, params, operands, HERE)
        results = kernel(*[api.asarray(one) if isinstance(one, np.ndarray) else one for one in operands])
        return [one.get() for one in results] if isinstance(results, (tuple, list)) else results.get()

    return called


# -- all ops -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", OPS)
def test_an_op_gives_numpys_values_of_all_kinds_of_dtypes(op: str, api: CudaApi) -> None:
    assert [found for name in OPS[op] for found in differences(op, tried(name), api, known=True)] == []


@pytest.mark.parametrize("op", [*ADAPTED, *FUSED, *UPDATES])
def test_an_op_gives_numpys_values_where_no_dtype_was_known(op: str, api: CudaApi) -> None:
    assert list(differences(op, tried(OPS[op][0]), api, known=False)) == []


def differences(op: str, one: Tried, api: CudaApi, known: bool) -> Iterator[str]:
    with quiet():
        try:
            results: list[HostArray] | None = [array.get() for array in compute(one, api, api.asarray, known)]
        except (ValueError, IndexError):
            results = None
    if results is None or one.expected is None:
        if results is not one.expected:
            yield f"{one.described}: {results} instead of {one.expected}"
        return
    for result, wanted in zip(results, one.expected, strict=True):
        if (result.dtype, result.shape) != (wanted.dtype, wanted.shape) or not is_same(op, result, wanted, {}):
            yield f"{one.described}: {result!r} instead of {wanted!r}"


@pytest.mark.parametrize("op", ["add", "divide", "equal", "floor_divide", "maximum", "pow", "remainder"])
@pytest.mark.parametrize("numbers", [(7, 2), (7, 2.5), (True, 2)], ids=str)
def test_two_python_numbers_give_what_numpy_gives(op: str, numbers: tuple[float, float], call: Calling) -> None:
    same(call(op, *numbers), getattr(np, op)(*numbers))


def test_python_numbers_become_arrays_where_cupy_takes_nothing_else(call: Calling) -> None:
    same(call("reshape", 2.5, shape=(1, 1)), np.reshape(2.5, (1, 1)))
    same(call("sum", 3), np.sum(3))
    same(call("broadcast_to", True, shape=(2,)), np.broadcast_to(True, (2,)))
    same(call("where", True, 2, 0.5), np.where(True, 2, 0.5))
    same(call("concat", np.ones(2, "float32"), 2.5, axis=None), np.concatenate([np.ones(2, "float32"), 2.5], axis=None))
    same(call("clip", 2.5, np.zeros(2, "float32"), np.ones(2, "float32")), np.ones(2, "float32"))


def test_what_is_expected_of_a_gpu_names_cases_that_there_are() -> None:
    assert {*DOUBTFUL} <= {f"test_values[{name}]" for name in CASES}


# -- what cannot be computed -------------------------------------------------------------------------


def test_an_unknown_op_is_refused_with_what_is_missing(api: CudaApi) -> None:
    with pytest.raises(NotImplementedError, match="cupy has no function 'no_such_op'"):
        make_kernel(api, "no_such_op", {}, [], HERE)


@pytest.mark.parametrize("dtype", ["longdouble", "S3", "datetime64[s]", ">f4"])
def test_a_dtype_that_cupy_lacks_is_refused_before_anything_runs(dtype: str, api: CudaApi) -> None:
    array = np.ones(1, dtype) if dtype != "datetime64[s]" else np.zeros(1, dtype)
    with pytest.raises(NotImplementedError, match="CuPy has no dtype"):
        make_kernel(api, "negative", {}, [array], HERE)
    with pytest.raises(NotImplementedError, match="CuPy has no dtype"):
        make_kernel(api, "astype", {"dtype": np.dtype(dtype), "copy": True}, [np.ones(1)], HERE)


# -- where CuPy is not NumPy -------------------------------------------------------------------------

AWKWARD = np.array(
    [0.0, -0.0, 0.1, -0.1, 0.3, 1.0, -1.0, 2.5, -7.5, 1e-3, 1e4, -3e4, np.inf, -np.inf, np.nan, 65504.0, 1 / 3]
)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("op", ["floor_divide", "remainder"])
def test_floats_are_divided_without_rounding_the_quotient(op: str, dtype: str, call: Calling) -> None:
    x, y = AWKWARD.astype(dtype)[:, None], AWKWARD.astype(dtype)
    with quiet():
        result, wanted = call(op, x, y), getattr(np, op)(x, y)
    same(result, wanted)
    assert np.array_equal(np.signbit(result[result == 0]), np.signbit(wanted[wanted == 0]))


def test_floats_are_divided_as_numpy_does_by_numbers_and_integers(call: Calling) -> None:
    for op in ("floor_divide", "remainder"):
        function = getattr(np, op)
        for x, y in [(AWKWARD, 0.1), (AWKWARD, -3), (1.0, AWKWARD), (np.arange(-5, 5), 0.3)]:
            with quiet():
                same(call(op, x, y), function(x, y))
        ints = np.arange(-3, 3, dtype="int8")
        with quiet():
            same(call(op, ints[:, None], ints), function(ints[:, None], ints))


def test_the_dtype_of_a_clip_is_that_of_all_three_at_once(call: Calling) -> None:
    for dtypes in product(("int8", "uint16", "float16", "complex64"), repeat=3):
        arrays = [np.ones(1, one) for one in dtypes]
        same(call("clip", *arrays), np.clip(*arrays))


def test_a_limit_that_is_nan_makes_nan(call: Calling) -> None:
    x, low, high = np.array([1.0, 2.0]), np.array([np.nan, 0.0]), np.array([3.0, np.nan])
    same(call("clip", x, low, high), np.clip(x, low, high))
    for limits in ((np.nan, 1.5), (1.5, np.nan)):
        same(call("clip", x, *limits), np.clip(x, *limits))


@pytest.mark.parametrize("op", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 2**70, -(2**70)])
def test_integers_compare_with_any_python_integer(op: str, number: int, call: Calling) -> None:
    for dtype in ("int8", "int64", "uint64", "float32"):
        array = np.array([0, 1, 100], dtype)
        same(call(op, array, number), getattr(np, op)(array, number))
        same(call(op, number, array), getattr(np, op)(number, array))


def test_a_python_integer_of_any_size_is_added_to_floats(call: Calling) -> None:
    array = np.ones(2, "float32")
    same(call("add", array, 2**70), array + 2**70)
    same(call("where", np.array([True, False]), array, 2**70), np.where([True, False], array, 2**70))


@pytest.mark.parametrize(
    ("start", "stop", "step", "dtype"),
    [
        (0, 5, 1, "uint8"), (5, 0, -1, "uint8"), (5, 0, -2, "uint64"), (0.5, 4, 1, "int64"), (0, 3, 0.5, "int32"),
        (10, 0, -0.75, "int16"), (0, 0, 1, "uint32"), (3, 1, 1, "uint8"), (0, 1, 0.25, "float16"), (0, 2, 1, "bool"),
        (1, 9, 3, "complex64"), (-5, 5, 3, "int8"), (1e10, 1e10 + 9, 0.1, "float64"), (2**63, 2**63 + 4, 1, "uint64"),
        (0, 3000, 1, "float16"), (0.1, 0.2, 5, "float32"), (-1.5, 3, 1, "int16"),
        (1, 3, 1, "bool"),
    ],
)  # fmt: skip
def test_an_arange_is_numpys(start: Any, stop: Any, step: Any, dtype: str, call: Calling) -> None:
    result = call("arange", start, stop, step, dtype=np.dtype(dtype))
    assert result.tobytes() == np.arange(start, stop, step, dtype=np.dtype(dtype)).tobytes()


def test_a_range_of_more_than_two_booleans_is_refused_as_by_numpy(call: Calling) -> None:
    with pytest.raises(TypeError, match="booleans"):
        call("arange", 0, 3, 1, dtype=np.dtype("bool"))


@pytest.mark.parametrize("num", [0, 1, 2, 5])
@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_a_linspace_of_complex_numbers_is_numpys(num: int, endpoint: bool, dtype: str, call: Calling) -> None:
    wanted = np.linspace(1j, 2 - 3j, num, endpoint=endpoint, dtype=dtype)
    same(call("linspace", 1j, 2 - 3j, num=num, endpoint=endpoint, dtype=np.dtype(dtype)), wanted)


def test_a_fill_value_is_converted_as_numpy_does(call: Calling) -> None:
    same(call("full", shape=(2,), fill_value=1.9, dtype=np.dtype("int8")), np.full(2, 1.9, "int8"))
    same(call("full_like", np.ones((2, 0), "uint8"), fill_value=2.5), np.full_like(np.ones((2, 0), "uint8"), 2.5))
    with pytest.warns(np.exceptions.ComplexWarning):
        same(call("full", shape=(), fill_value=2 + 1j, dtype=np.dtype("float32")), np.array(2, "float32"))


@pytest.mark.parametrize("op", ["std", "var"])
@pytest.mark.parametrize("correction", [0, 1, 0.5, 3, 7])
def test_what_is_divided_by_nothing_is_infinite(op: str, correction: float, call: Calling) -> None:
    for array in (np.array([[1.0, 2.0, 4.0], [1.0, 1.0, 1.0]], "float32"), np.zeros((2, 0))):
        with quiet():
            same(call(op, array, axis=1, correction=correction), getattr(np, op)(array, axis=1, correction=correction))
            same(call(op, array, correction=correction), getattr(np, op)(array, correction=correction))


@pytest.mark.parametrize(
    ("dtype", "wanted"), [("complex64", "float64"), ("float32", "int64"), ("int16", "int8"), ("int64", "bool")]
)
def test_elements_are_converted_before_they_are_added(dtype: str, wanted: str, call: Calling) -> None:
    array = np.array([1.75, 2.75, -100.5]).astype(dtype)
    with quiet():
        same(call("sum", array, dtype=np.dtype(wanted)), np.sum(array, dtype=wanted))
        same(call("prod", array, dtype=np.dtype(wanted)), np.prod(array, dtype=wanted))


@pytest.mark.parametrize("label", [-1, 3, 2**32])
def test_the_loss_of_a_label_that_is_no_class_is_nan(label: int, call: Calling) -> None:
    """NumPy's raises; here nobody waits to find out."""
    losses, _ = call("softmax_cross_entropy", np.zeros((2, 3)), np.array([1, label]))
    np.testing.assert_allclose(losses, [np.log(3), np.nan], rtol=1e-15)


def test_many_booleans_are_multiplied_as_booleans(call: Calling) -> None:
    """Their sum would be 0 in a byte."""
    ones = np.ones(256, "bool")
    for result in (call("matmul", ones, ones), call("tensordot", ones, ones, axes=1), call("vecdot", ones, ones)):
        same(result, np.array(True))


def test_a_vecdot_conjugates_the_first_and_broadcasts(call: Calling) -> None:
    x = np.array([[1 + 2j, 3j], [1, -1j]], "complex64")
    y = np.array([2 - 1j, 4], "complex64")
    same(call("vecdot", x, y), np.vecdot(x, y))
    same(call("vecdot", x, x, axis=-2), np.vecdot(x.T, x.T))


def test_what_is_true_of_complex_numbers_is_whether_they_are_not_zero(call: Calling) -> None:
    x, y = np.array([0, 1j, 1, np.nan]), np.array([[0j], [2]])
    for op in ("logical_and", "logical_or", "logical_xor"):
        same(call(op, x, y), getattr(np, op)(x, y))
        same(call(op, x, 1j), getattr(np, op)(x, 1j))
    same(call("logical_not", x), np.logical_not(x))
    same(call("where", x, 1, 2), np.where(x, 1, 2))


def test_dtypes_of_many_arrays_are_joined_at_once(call: Calling) -> None:
    arrays = [np.ones(1, dtype) for dtype in ("int8", "uint16", "float32")]
    same(call("concat", *arrays), np.concatenate(arrays))
    same(call("stack", *arrays), np.stack(arrays))
    same(call("concat", *arrays, 2.5, axis=None), np.concatenate([*arrays, 2.5], axis=None))
    for dtypes in product(DTYPES[3:11], repeat=2):
        arrays = [np.ones(1, dtype) for dtype in dtypes]
        same(call("stack", *arrays), np.stack(arrays))


def test_a_mesh_of_one_vector_does_not_share_its_memory(api: CudaApi) -> None:
    x = api.asarray(np.arange(3.0))
    (mesh,) = make_kernel(api, "meshgrid", {"indexing": "xy"}, [x], HERE)(x)
    mesh.set(np.zeros(3))
    same(x.get(), np.arange(3.0))


def test_a_mesh_takes_numbers_and_arrays_of_rank_0(call: Calling) -> None:
    for result, wanted in zip(
        call("meshgrid", np.arange(3), 2.5, np.array(1), indexing="xy"), np.meshgrid(np.arange(3), 2.5, 1), strict=True
    ):
        same(result, wanted)


ZERO_AND_ONE = np.array([0.0, 1.0])


@pytest.mark.parametrize(
    ("op", "operands", "params", "launched"),
    [
        ("floor_divide", [ZERO_AND_ONE, 0.1], {}, "fmod"),
        ("remainder", [ZERO_AND_ONE, 0.1], {}, "fmod"),
        ("clip", [ZERO_AND_ONE, ZERO_AND_ONE, 1.0], {}, "minimum"),
        ("logical_and", [1j * ZERO_AND_ONE, True], {}, "not_equal"),
        ("matmul", [ZERO_AND_ONE > 0, ZERO_AND_ONE > 0], {}, "not_equal"),
        ("var", [ZERO_AND_ONE], {"correction": 2}, "divide"),
        ("meshgrid", [ZERO_AND_ONE], {"indexing": "ij"}, "copy"),
        ("arange", [3, 0, -1], {"dtype": np.dtype("uint8")}, "multiply"),
    ],
)
def test_what_cupy_does_otherwise_is_not_left_to_it(
    op: str, operands: list[Any], params: dict[str, Any], launched: str, call: Calling, world: World
) -> None:
    """The stand-in would have done it NumPy's way."""
    before = len(world.log)
    call(op, *operands, **params)
    assert launched in {one.what for one in world.log[before:] if one.kind == "launch"}


# -- what they are made of ---------------------------------------------------------------------------


def same(result: HostArray, wanted: Any) -> None:
    expected = np.asarray(wanted)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    tolerance = 8 * float(np.finfo(expected.dtype).eps) if expected.dtype.kind in "fc" else 0.0
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=0)
