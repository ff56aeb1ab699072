"""Specs: what they take, how they print and are read, and that equal ones are one object."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

from asyncgraph._graph.spec import ANY, ArraySpec
from asyncgraph.errors import GraphError, SpecError, SpecTypeError

TEXTS = {
    "float32[n,256]": ArraySpec("float32", ("n", 256)),
    "int64[]": ArraySpec("int64", ()),
    "float64[?,3]": ArraySpec("float64", (None, 3)),
    "bool[...]": ArraySpec("bool", None),
    "?[n]": ArraySpec(None, ("n",)),
    "complex128[0]": ArraySpec("complex128", (0,)),
    "datetime64[ns][n]": ArraySpec("datetime64[ns]", ("n",)),
    "<U3[2]": ArraySpec("U3", (2,)),
    "any": ANY,
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_spec_is_read_from_what_it_prints(text: str) -> None:
    assert repr(TEXTS[text]) == text
    assert ArraySpec.parse(text) is TEXTS[text]


def test_spaces_in_the_text_of_a_spec_mean_nothing() -> None:
    assert ArraySpec.parse("  float32 [ n , 256 ] ") is ArraySpec("float32", ("n", 256))


def test_equal_specs_are_one_object() -> None:
    assert ArraySpec("float32", ("n", 3)) is ArraySpec(np.dtype(np.float32), ["n", np.int64(3)])


@pytest.mark.parametrize("spec", TEXTS.values(), ids=repr)
def test_a_copied_or_pickled_spec_is_the_same_object(spec: ArraySpec) -> None:
    assert pickle.loads(pickle.dumps(spec)) is spec
    assert copy.deepcopy(spec) is spec


def test_a_spec_is_in_native_byte_order() -> None:
    # AG-034, https://github.com/dask/dask/issues/1647: '>f4' and 'f4' are not equal to NumPy.
    assert ArraySpec(">f4", (3,)) is ArraySpec("<f4", (3,)) is ArraySpec("f4", (3,))


def test_one_int_or_name_stands_for_the_shape_of_a_vector() -> None:
    assert ArraySpec("int8", 3) is ArraySpec("int8", (3,))
    assert ArraySpec("int8", "n") is ArraySpec("int8", ("n",))


def test_a_size_is_known_if_every_dimension_is_literal() -> None:
    assert ArraySpec("int8", (2, 3)).size == 6
    assert ArraySpec("int8", ()).size == 1
    assert ArraySpec("int8", (0, 3)).size == 0
    assert ArraySpec("int8", ("n", 3)).size is None
    assert ArraySpec("int8", (None,)).size is None
    assert ArraySpec("int8").size is None


def test_a_rank_is_known_if_the_shape_is() -> None:
    assert ArraySpec("int8", ("n", None)).ndim == 2
    assert ArraySpec("int8", ()).ndim == 0
    assert ArraySpec("int8").ndim is None


def test_a_spec_cannot_be_changed() -> None:
    spec = ArraySpec("int8", (2,))
    with pytest.raises(AttributeError, match="an ArraySpec is immutable: 'shape' cannot be set"):
        spec.shape = (3,)
    with pytest.raises(AttributeError):
        del spec.shape
    assert spec.shape == (2,)


@pytest.mark.parametrize(
    ("dtype", "shape", "kind", "message"),
    [
        ("float33", (), SpecTypeError, "'float33' is not a dtype\n  give a NumPy dtype such as 'float32', or None"),
        (
            object,
            (),
            SpecTypeError,
            "dtype('O') holds Python objects\n  leave dtype=None for values that are any Python object",
        ),
        ("int8", (1.5,), SpecTypeError, "a dimension is an int, a name or None, not 1.5"),
        ("int8", (True,), SpecTypeError, "a dimension is an int, a name or None, not True"),
        ("int8", 1.5, SpecTypeError, "1.5 is not a shape\n  give a tuple of ints, names and None"),
        ("int8", (-1,), SpecError, "a dimension cannot be negative: -1\n  write None for one that is unknown"),
        ("int8", ("two words",), SpecError, "the dimension name 'two words' is not an identifier"),
        ("int8", ("",), SpecError, "the dimension name '' is not an identifier"),
    ],
)
def test_what_is_no_spec_is_an_error_that_says_what_to_write(
    dtype: object, shape: object, kind: type[GraphError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        ArraySpec(dtype, shape)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot read a spec from ''\n  write, for example, 'float32[n,256]' or 'int64[]'"),
        (
            "float32",
            "the spec 'float32' has no shape\n"
            "  write 'float32[]' for a scalar, 'float32[n]' for a vector, 'float32[...]' for any rank",
        ),
        ("int8[2 3]", "cannot read the dimension '2 3' of the spec 'int8[2 3]'\n  write an int, a name, or '?'"),
        ("int8[n,]", "cannot read the dimension '' of the spec 'int8[n,]'\n  write an int, a name, or '?'"),
        ("int8[-1]", "cannot read the dimension '-1' of the spec 'int8[-1]'\n  write an int, a name, or '?'"),
    ],
)
def test_text_that_is_no_spec_is_an_error_that_says_what_to_write(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        ArraySpec.parse(text)
    assert str(caught.value) == message


def test_a_spec_that_nobody_uses_is_forgotten() -> None:
    spec = weakref.ref(ArraySpec("int8", (7, "forgotten")))
    gc.collect()
    assert spec() is None
