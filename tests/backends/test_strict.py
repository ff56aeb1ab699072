from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from asyncgraph.testing import BackendConformance

from .strict_backend import StrictBackend

FLOATS = "the standard has it for floats alone"
NUMBERS = "the standard has it for numbers alone, and booleans are none"
REFUSED = (
    (
        FLOATS,
        "int limits",
        "acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 sin sinh sqrt tan tanh",
    ),
    (
        FLOATS,
        "bool int",
        "divide:number mean mean:axis reciprocal signbit std std:axis std:correction var var:axis",
    ),
    (FLOATS, "limits", "reciprocal signbit"),
    (FLOATS, "int limits mixed", "atan2 copysign hypot logaddexp nextafter"),
    (FLOATS, "bool int limits mixed", "divide"),
    (
        NUMBERS,
        "bool",
        """abs add:number argmax argmax:axis argmin argmin:axis ceil clip:number conj floor isfinite isinf isnan
        less:number max max:axis min min:axis multiply:number pow:number prod prod:axis real remainder:number square
        sum sum:axis sum:dtype trunc index_add index_add:int sum_to""",
    ),
    (
        NUMBERS,
        "bool mixed",
        """add bitwise_left_shift bitwise_right_shift clip floor_divide greater greater_equal less less_equal matmul
        maximum minimum multiply pow remainder sum_to tensordot vecdot vecdot:axis""",
    ),
    (
        "the standard has it for real numbers alone",
        "complex",
        """argmax argmax:axis argmin argmin:axis clip clip:number greater greater_equal less less:number less_equal max
        max:axis maximum min min:axis minimum std std:axis std:correction var var:axis
        where_larger where_larger:number""",
    ),
    ("the standard has it for complex numbers alone", "bool int limits float special", "imag"),
    ("the standard has it for booleans alone", "int limits float complex special", "logical_not"),
    (
        "the standard has it for booleans alone",
        "int limits float complex mixed special",
        "logical_and logical_or logical_xor",
    ),
    (
        "the standard leaves promotion between kinds open",
        "mixed",
        """bitwise_and bitwise_or bitwise_xor concat concat:axis equal index_add index_add:int index_set index_set:all
        index_set:int not_equal split_like split_like:axis split_like:flat stack subtract where where_larger""",
    ),
    (
        "the standard converts no complex numbers to real ones",
        "complex",
        "astype:bool astype:int32 astype:float32 astype:copy",
    ),
    (
        "the standard adds no booleans",
        "bool",
        "take_add take_add:axis",
    ),
    ("the standard's clip has the dtype of what is clipped, NumPy's also those of the bounds", "int", "clip"),
    ("the standard leaves open what is between a minimum and a smaller maximum", "special", "clip"),
)
"""What the standard does not have, and NumPy does: why, for which kinds of dtypes, in which cases."""


class TestStrictBackend(BackendConformance):
    backend_class = StrictBackend
    dtypes = (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float32", "float64", "complex64", "complex128",
    )  # fmt: skip
    expected_failures: ClassVar[Mapping[str, str]] = {
        f"test_values[{case}-{kind}]": reason
        for reason, kinds, cases in REFUSED
        for case in cases.split()
        for kind in kinds.split()
    }
