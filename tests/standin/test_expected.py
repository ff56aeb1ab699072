from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import asyncgraph as ag

from .as_host import in_numpy_s_place
from .expected import FAILS, LEFT_OUT

TESTS = Path(__file__).parent.parent
NAMES = [name for table in (FAILS, LEFT_OUT) for names in table.values() for name in names]


@pytest.mark.parametrize("file", sorted({name.partition("::")[0] for name in NAMES}))
def test_what_the_tables_name_is_there_and_named_once(file: str) -> None:
    tests = [name.partition("::")[2] for name in NAMES if name.partition("::")[0] == file]
    functions = [
        one
        for one in ast.parse((TESTS / file).read_text()).body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    there = {"", *[one.name for one in functions]}
    assert [one for one in tests if one not in there] == []
    assert len(tests) == len(set(tests))
    assert "" not in tests or len(tests) == 1


async def test_nodes_that_ask_for_no_device_run_on_the_stand_in_that_is_in_numpys_place() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        y = ag.ops.sum(ag.ops.square(x))
    with in_numpy_s_place(logged=True) as world:
        async with ag.Session(graph) as session:
            assert (await session.run(y, {x: np.arange(3.0)})).results == 5.0
            assert session.statistics().submitted_segments == 1
    assert [call.what for call in world.log if call.kind == "launch"][-2:] == ["square", "sum"]
    world.check()
