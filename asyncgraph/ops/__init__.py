"""The vocabulary: the functions of the Array API standard (2025.12), on nodes.

Names, parameters and what they mean are the standard's; dtypes and values are NumPy's, also where the standard leaves
them open. Each function takes `name=`, a label for its node. Dtypes and constants are NumPy's own objects.

What graphs need and the standard has not: `at` replaces elements, or adds to them, in a new value; `broadcast_like` and
`sum_to` take a shape that is known only when it runs; `one_hot` makes vectors of indices; `random` draws numbers.
"""

from __future__ import annotations

from numpy import bool as bool
from numpy import complex64 as complex64
from numpy import complex128 as complex128
from numpy import e as e
from numpy import float32 as float32
from numpy import float64 as float64
from numpy import inf as inf
from numpy import int8 as int8
from numpy import int16 as int16
from numpy import int32 as int32
from numpy import int64 as int64
from numpy import nan as nan
from numpy import newaxis as newaxis
from numpy import pi as pi
from numpy import uint8 as uint8
from numpy import uint16 as uint16
from numpy import uint32 as uint32
from numpy import uint64 as uint64

from . import _numpy as _numpy
from . import _numpy_functions as _numpy_functions
from . import linalg as linalg
from . import random as random
from .creation import arange as arange
from .creation import asarray as asarray
from .creation import empty as empty
from .creation import empty_like as empty_like
from .creation import eye as eye
from .creation import from_dlpack as from_dlpack
from .creation import full as full
from .creation import full_like as full_like
from .creation import linspace as linspace
from .creation import meshgrid as meshgrid
from .creation import one_hot as one_hot
from .creation import ones as ones
from .creation import ones_like as ones_like
from .creation import tril as tril
from .creation import triu as triu
from .creation import zeros as zeros
from .creation import zeros_like as zeros_like
from .data_types import astype as astype
from .data_types import can_cast as can_cast
from .data_types import finfo as finfo
from .data_types import iinfo as iinfo
from .data_types import isdtype as isdtype
from .data_types import result_type as result_type
from .elementwise import abs as abs
from .elementwise import acos as acos
from .elementwise import acosh as acosh
from .elementwise import add as add
from .elementwise import asin as asin
from .elementwise import asinh as asinh
from .elementwise import atan as atan
from .elementwise import atan2 as atan2
from .elementwise import atanh as atanh
from .elementwise import bitwise_and as bitwise_and
from .elementwise import bitwise_invert as bitwise_invert
from .elementwise import bitwise_left_shift as bitwise_left_shift
from .elementwise import bitwise_or as bitwise_or
from .elementwise import bitwise_right_shift as bitwise_right_shift
from .elementwise import bitwise_xor as bitwise_xor
from .elementwise import ceil as ceil
from .elementwise import clip as clip
from .elementwise import conj as conj
from .elementwise import copysign as copysign
from .elementwise import cos as cos
from .elementwise import cosh as cosh
from .elementwise import divide as divide
from .elementwise import equal as equal
from .elementwise import exp as exp
from .elementwise import expm1 as expm1
from .elementwise import floor as floor
from .elementwise import floor_divide as floor_divide
from .elementwise import greater as greater
from .elementwise import greater_equal as greater_equal
from .elementwise import hypot as hypot
from .elementwise import imag as imag
from .elementwise import isfinite as isfinite
from .elementwise import isinf as isinf
from .elementwise import isnan as isnan
from .elementwise import less as less
from .elementwise import less_equal as less_equal
from .elementwise import log as log
from .elementwise import log1p as log1p
from .elementwise import log2 as log2
from .elementwise import log10 as log10
from .elementwise import logaddexp as logaddexp
from .elementwise import logical_and as logical_and
from .elementwise import logical_not as logical_not
from .elementwise import logical_or as logical_or
from .elementwise import logical_xor as logical_xor
from .elementwise import maximum as maximum
from .elementwise import minimum as minimum
from .elementwise import multiply as multiply
from .elementwise import negative as negative
from .elementwise import nextafter as nextafter
from .elementwise import not_equal as not_equal
from .elementwise import positive as positive
from .elementwise import pow as pow
from .elementwise import real as real
from .elementwise import reciprocal as reciprocal
from .elementwise import remainder as remainder
from .elementwise import round as round
from .elementwise import sign as sign
from .elementwise import signbit as signbit
from .elementwise import sin as sin
from .elementwise import sinh as sinh
from .elementwise import sqrt as sqrt
from .elementwise import square as square
from .elementwise import subtract as subtract
from .elementwise import tan as tan
from .elementwise import tanh as tanh
from .elementwise import trunc as trunc
from .indexing import at as at
from .indexing import take as take
from .linalg import matmul as matmul
from .linalg import matrix_transpose as matrix_transpose
from .linalg import tensordot as tensordot
from .linalg import vecdot as vecdot
from .manipulation import broadcast_arrays as broadcast_arrays
from .manipulation import broadcast_like as broadcast_like
from .manipulation import broadcast_to as broadcast_to
from .manipulation import concat as concat
from .manipulation import expand_dims as expand_dims
from .manipulation import flip as flip
from .manipulation import moveaxis as moveaxis
from .manipulation import permute_dims as permute_dims
from .manipulation import reshape as reshape
from .manipulation import roll as roll
from .manipulation import squeeze as squeeze
from .manipulation import stack as stack
from .manipulation import unstack as unstack
from .searching import argmax as argmax
from .searching import argmin as argmin
from .searching import where as where
from .statistical import max as max
from .statistical import mean as mean
from .statistical import min as min
from .statistical import prod as prod
from .statistical import std as std
from .statistical import sum as sum
from .statistical import sum_to as sum_to
from .statistical import var as var
from .utility import all as all
from .utility import any as any

__array_api_version__ = "2025.12"

__all__ = [
    "__array_api_version__",
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "asarray",
    "asin",
    "asinh",
    "astype",
    "at",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool",
    "broadcast_arrays",
    "broadcast_like",
    "broadcast_to",
    "can_cast",
    "ceil",
    "clip",
    "complex64",
    "complex128",
    "concat",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "e",
    "empty",
    "empty_like",
    "equal",
    "exp",
    "expand_dims",
    "expm1",
    "eye",
    "finfo",
    "flip",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "from_dlpack",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "hypot",
    "iinfo",
    "imag",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "linalg",
    "linspace",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "meshgrid",
    "min",
    "minimum",
    "moveaxis",
    "multiply",
    "nan",
    "negative",
    "newaxis",
    "nextafter",
    "not_equal",
    "one_hot",
    "ones",
    "ones_like",
    "permute_dims",
    "pi",
    "positive",
    "pow",
    "prod",
    "random",
    "real",
    "reciprocal",
    "remainder",
    "reshape",
    "result_type",
    "roll",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "sum_to",
    "take",
    "tan",
    "tanh",
    "tensordot",
    "tril",
    "triu",
    "trunc",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unstack",
    "var",
    "vecdot",
    "where",
    "zeros",
    "zeros_like",
]
