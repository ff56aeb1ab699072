"""The parameters of CuPy's functions, as CuPy 14.2 has them. A function that is not here, the stand-in has not."""


def words(text: str) -> tuple[str, ...]:
    """The names in a text, which is easier to read than a list of them."""
    return tuple(text.split())


UNARY = words(
    "abs absolute acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh bitwise_count "
    "bitwise_invert bitwise_not cbrt ceil conj conjugate cos cosh deg2rad degrees exp exp2 expm1 fabs fix floor invert "
    "isfinite isinf isnan log log10 log1p log2 logical_not negative positive rad2deg radians reciprocal rint sign "
    "signbit sin sinc sinh sqrt square tan tanh trunc"
)
BINARY = words(
    "add arctan2 atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal "
    "float_power floor_divide fmax fmin fmod gcd greater greater_equal heaviside hypot lcm ldexp left_shift less "
    "less_equal logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum mod multiply nextafter "
    "not_equal pow power remainder right_shift subtract true_divide"
)
TWO_RESULTS = {"divmod": 2, "frexp": 1, "modf": 1}
"""With how many operands."""

VIEWS = {
    "broadcast_to": "array, shape",
    "diagonal": "a, offset=0, axis1=0, axis2=1",
    "expand_dims": "a, axis",
    "flip": "a, axis=None",
    "fliplr": "a",
    "flipud": "a",
    "matrix_transpose": "x, /",
    "moveaxis": "a, source, destination",
    "permute_dims": "a, axes=None",
    "rollaxis": "a, axis, start=0",
    "rot90": "a, k=1, axes=(0, 1)",
    "array_split": "ary, indices_or_sections, axis=0",
    "split": "ary, indices_or_sections, axis=0",
    "squeeze": "a, axis=None",
    "swapaxes": "a, axis1, axis2",
    "transpose": "a, axes=None",
}
"""What launches nothing: the results share the operand's memory."""

COMPUTED = {
    "all": "a, axis=None, out=None, keepdims=False",
    "allclose": "a, b, rtol=1e-05, atol=1e-08, equal_nan=False",
    "amax": "a, axis=None, out=None, keepdims=False",
    "amin": "a, axis=None, out=None, keepdims=False",
    "angle": "z, deg=False",
    "any": "a, axis=None, out=None, keepdims=False",
    "arange": "start, stop=None, step=1, dtype=None",
    "argmax": "a, axis=None, dtype=None, out=None, keepdims=False",
    "argmin": "a, axis=None, dtype=None, out=None, keepdims=False",
    "argpartition": "a, kth, axis=-1",
    "argsort": "a, axis=-1, kind=None",
    "around": "a, decimals=0, out=None",
    "array_equal": "a1, a2, equal_nan=False",
    "clip": "a, a_min, a_max, out=None",
    "column_stack": "tup",
    "concat": "tup, axis=0, out=None, *, dtype=None, casting='same_kind'",
    "concatenate": "tup, axis=0, out=None, *, dtype=None, casting='same_kind'",
    "convolve": "a, v, mode='full'",
    "copy": "a, order='K'",
    "correlate": "a, v, mode='valid'",
    "count_nonzero": "a, axis=None",
    "cross": "a, b, axisa=-1, axisb=-1, axisc=-1, axis=None",
    "cumprod": "a, axis=None, dtype=None, out=None",
    "cumsum": "a, axis=None, dtype=None, out=None",
    "cumulative_prod": "x, /, *, axis=None, dtype=None, out=None, include_initial=False",
    "cumulative_sum": "x, /, *, axis=None, dtype=None, out=None, include_initial=False",
    "diag": "v, k=0",
    "diff": "a, n=1, axis=-1, prepend=None, append=None",
    "digitize": "x, bins, right=False",
    "dot": "a, b, out=None",
    "dstack": "tup",
    "einsum": "*operands, **kwargs",
    "eye": "N, M=None, k=0, dtype=float, order='C'",
    "full": "shape, fill_value, dtype=None, order='C'",
    "full_like": "a, fill_value, dtype=None, order='K', subok=None, shape=None",
    "hstack": "tup, *, dtype=None, casting='same_kind'",
    "identity": "n, dtype=float",
    "indices": "dimensions, dtype=int",
    "inner": "a, b",
    "interp": "x, xp, fp, left=None, right=None, period=None",
    "isclose": "a, b, rtol=1e-05, atol=1e-08, equal_nan=False",
    "isin": "element, test_elements, assume_unique=False, invert=False",
    "kron": "a, b",
    "lexsort": "keys",
    "linspace": "start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0",
    "logspace": "start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0",
    "matmul": (
        "*args, axes=None, axis=None, keepdims=False, casting='same_kind', dtype=None, signature=None, order='K', "
        "out=None"
    ),
    "max": "a, axis=None, out=None, keepdims=False",
    "mean": "a, axis=None, dtype=None, out=None, keepdims=False",
    "median": "a, axis=None, out=None, overwrite_input=False, keepdims=False",
    "meshgrid": "*xi, **kwargs",
    "min": "a, axis=None, out=None, keepdims=False",
    "nan_to_num": "x, copy=True, nan=0.0, posinf=None, neginf=None",
    "nanmax": "a, axis=None, out=None, keepdims=False",
    "nanmean": "a, axis=None, dtype=None, out=None, keepdims=False",
    "nanmin": "a, axis=None, out=None, keepdims=False",
    "nansum": "a, axis=None, dtype=None, out=None, keepdims=False",
    "ones": "shape, dtype=float, order='C'",
    "ones_like": "a, dtype=None, order='K', subok=None, shape=None",
    "outer": "a, b, out=None",
    "pad": "array, pad_width, mode='constant', **kwargs",
    "partition": "a, kth, axis=-1",
    "prod": "a, axis=None, dtype=None, out=None, keepdims=False",
    "ptp": "a, axis=None, out=None, keepdims=False",
    "roll": "a, shift, axis=None",
    "round": "a, decimals=0, out=None",
    "searchsorted": "a, v, side='left', sorter=None",
    "sort": "a, axis=-1, kind=None",
    "stack": "tup, axis=0, out=None, *, dtype=None, casting='same_kind'",
    "std": "a, axis=None, dtype=None, out=None, ddof=0, keepdims=False",
    "sum": "a, axis=None, dtype=None, out=None, keepdims=False",
    "take": "a, indices, axis=None, out=None",
    "take_along_axis": "a, indices, axis",
    "tensordot": "a, b, axes=2",
    "tile": "A, reps",
    "trace": "a, offset=0, axis1=0, axis2=1, dtype=None, out=None",
    "tri": "N, M=None, k=0, dtype=float",
    "tril": "m, k=0",
    "triu": "m, k=0",
    "unravel_index": "indices, dims, order='C'",
    "var": "a, axis=None, dtype=None, out=None, ddof=0, keepdims=False",
    "vdot": "a, b",
    "vstack": "tup, *, dtype=None, casting='same_kind'",
    "zeros": "shape, dtype=float, order='C'",
    "zeros_like": "a, dtype=None, order='K', subok=None, shape=None",
}
"""What is one launch, more or less, with a result whose shape depends on no value."""

WAITING = {
    "argwhere": "a",
    "bincount": "x, weights=None, minlength=None",
    "compress": "condition, a, axis=None, out=None",
    "extract": "condition, a",
    "flatnonzero": "a",
    "histogram": "x, bins=10, range=None, density=False, weights=None",
    "intersect1d": "arr1, arr2, assume_unique=False, return_indices=False",
    "nonzero": "a",
    "percentile": (
        "a, q, axis=None, out=None, overwrite_input=False, method='linear', keepdims=False, *, interpolation=None"
    ),
    "quantile": (
        "a, q, axis=None, out=None, overwrite_input=False, method='linear', keepdims=False, *, interpolation=None"
    ),
    "setdiff1d": "ar1, ar2, assume_unique=False",
    "setxor1d": "ar1, ar2, assume_unique=False",
    "trim_zeros": "filt, trim='fb'",
    "union1d": "arr1, arr2",
    "unique": ("ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True"),
    "unique_all": "x",
    "unique_counts": "x",
    "unique_inverse": "x",
    "unique_values": "x",
}
"""What makes the host wait for the device."""

LINALG = {
    "cholesky": "a",
    "det": "a",
    "eigh": "a, UPLO='L'",
    "eigvalsh": "a, UPLO='L'",
    "inv": "a",
    "lstsq": "a, b, rcond=None",
    "matrix_power": "M, n",
    "matrix_rank": "M, tol=None",
    "norm": "x, ord=None, axis=None, keepdims=False",
    "pinv": "a, rcond=1e-15",
    "qr": "a, mode='reduced'",
    "slogdet": "a",
    "solve": "a, b",
    "svd": "a, full_matrices=True, compute_uv=True",
}
"""Of `cupy.linalg`; likewise one launch each."""

WRITTEN_OUT = {
    "array": "obj, dtype=None, copy=True, order='K', subok=False, ndmin=0, *, blocking=False",
    "asanyarray": "a, dtype=None, order=None, *, copy=None, blocking=False",
    "asarray": "a, dtype=None, order=None, *, copy=None, blocking=False",
    "ascontiguousarray": "a, dtype=None",
    "asfortranarray": "a, dtype=None",
    "asnumpy": "a, stream=None, order='C', out=None, *, blocking=True",
    "astype": "x, dtype, /, *, copy=True",
    "atleast_1d": "*arys",
    "atleast_2d": "*arys",
    "atleast_3d": "*arys",
    "broadcast_arrays": "*args",
    "copyto": "dst, src, casting='same_kind', where=None",
    "empty": "shape, dtype=float, order='C'",
    "empty_like": "prototype, dtype=None, order='K', subok=None, shape=None",
    "from_dlpack": "array, *, device=None, copy=None",
    "imag": "val",
    "ravel": "a, order='C'",
    "real": "val",
    "repeat": "a, repeats, axis=None",
    "reshape": "a, newshape, order='C', *, copy=None",
    "where": "condition, x=None, y=None",
}
"""What is written out in `written_out`."""

HOST = words(
    "bool_ broadcast_shapes complex64 complex128 dtype e euler_gamma finfo float16 float32 float64 iinfo inf int8 "
    "int16 int32 int64 int_ intp isdtype isscalar issubdtype nan newaxis number pi promote_types uint8 "
    "uint16 uint32 uint64"
)
"""What is NumPy's, and takes arrays at most for their shapes."""
