from __future__ import annotations

import inspect
from typing import Any

import array_api_strict
import pytest

from asyncgraph import ops

FUNCTIONS = [name for name in ops.__all__ if inspect.isfunction(vars(array_api_strict).get(name))]


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    signature = inspect.signature(function)
    # array-api-strict marks what is not given by an object of its own, where the standard says None.
    return [
        (p.name, p.kind, None if type(p.default).__name__ == "Undef" else p.default)
        for p in signature.parameters.values()
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_functions_parameters_are_the_standards_and_a_name_if_it_builds_a_node(name: str) -> None:
    standard, ours = parameters(vars(array_api_strict)[name]), parameters(vars(ops)[name])

    extra = [one for one in ours if one not in standard]

    assert [one for one in ours if one in standard] == standard
    assert [one[0] for one in extra] in (["name"], [])
    assert all(one[1:] == (inspect.Parameter.KEYWORD_ONLY, None) for one in extra)


def test_every_public_name_is_there_and_there_once() -> None:
    assert len(set(ops.__all__)) == len(ops.__all__)
    assert set(ops.__all__) <= set(vars(ops))
