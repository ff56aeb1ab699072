"""What a run sees of variables: reads are ordered by edges, and by nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncgraph as ag

from .helpers import KINDS, opened

pytestmark = pytest.mark.parametrize("kind", KINDS)


async def test_fetching_a_variable_gives_its_value_at_the_start_of_the_run(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(1.0)
        new = v.assign(5.0)
    async with opened(kind, graph) as session:
        assert await session.run([v, new, v]) == [1.0, 5.0, 1.0]
        assert await session.run(v) == 5.0


async def test_a_use_that_no_edge_orders_sees_the_start_of_the_run_wherever_it_is_computed(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(1.0)
        before = v + 0
        new = v.assign(5.0)
        after = v + new
    async with opened(kind, graph) as session:
        assert await session.run([after, new, before]) == [6.0, 5.0, 1.0]


async def test_a_read_after_an_assignment_by_a_control_edge_sees_what_was_assigned(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(1.0)
        with ag.control_dependencies([v.assign(5.0)]):
            used, read = v * 2, v.read()
    async with opened(kind, graph) as session:
        assert await session.run([used, read, v]) == [10.0, 5.0, 1.0]


async def test_a_read_after_what_was_computed_from_an_assignment_sees_what_was_assigned(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(1.0)
        computed = ag.ops.square(v.assign(5.0) + 1)
        with ag.control_dependencies([computed]):
            read = v.read()
    async with opened(kind, graph) as session:
        assert await session.run(read) == 5.0


async def test_a_read_sees_the_assignments_that_it_comes_after_and_no_others(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        first = v.assign(1.0)
        second = v.assign(2.0)
        reads = []
        for after in ([first], [second], [first, second], [second, first]):
            with ag.control_dependencies(after):
                reads.append(v.read())
    async with opened(kind, graph) as session:
        assert await session.run([*reads, v + 0]) == [1.0, 2.0, 2.0, 2.0, 0.0]
        assert await session.run(v) == 2.0


async def test_reads_under_different_control_edges_are_never_merged_nor_is_what_is_computed_from_them(
    kind: str,
) -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        one, two = v.assign(1.0), v.assign(2.0)
        plain = ag.ops.exp(v)
        with ag.control_dependencies([one]):
            after_one = ag.ops.exp(v)
        with ag.control_dependencies([two]):
            after_two = ag.ops.exp(v)
    async with opened(kind, graph) as session:
        np.testing.assert_array_equal(await session.run([plain, after_one, after_two]), np.exp([0.0, 1.0, 2.0]))


async def test_assignments_that_no_edge_orders_apply_in_the_order_in_which_they_were_built(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        slow = ag.op(lambda: np.float64(1.0), spec="float64[]").node()
        first, last = v.assign(slow), v.assign(2.0)
    async with opened(kind, graph) as session:
        for fetches in ([first, last], [last, first]):
            await session.run(fetches)
            assert await session.run(v) == 2.0


async def test_an_assignment_that_no_fetch_needs_is_not_made(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        v.assign(1.0)
        used = v + 0
    async with opened(kind, graph) as session:
        assert await session.run(used) == 0.0
        assert await session.run(v) == 0.0


async def test_what_is_read_before_an_assignment_stays_what_it_was(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable([1.0, 2.0])
        old = v + 0
        with ag.control_dependencies([old]):
            new = v.assign_add([1.0, 1.0])
    async with opened(kind, graph) as session:
        for step in range(3):
            before, after, held = await session.run([old, new, v])
            assert before.tolist() == held.tolist() == [1.0 + step, 2.0 + step]
            assert after.tolist() == [2.0 + step, 3.0 + step]


async def test_a_group_orders_like_what_is_in_it(kind: str) -> None:
    with ag.Graph() as graph:
        v, w = ag.variable(0.0), ag.variable(0.0)
        with ag.control_dependencies([ag.group(v.assign(1.0), w.assign(2.0))]):
            total = v + w
    async with opened(kind, graph) as session:
        assert await session.run(total) == 3.0


# -- adding ------------------------------------------------------------------------------------------------


async def test_assign_add_adds_to_what_the_assignments_built_before_it_have_made(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        added = v.assign_add(1.0)
        assigned = v.assign(10.0)
        subtracted = v.assign_sub(2.0)
    async with opened(kind, graph) as session:
        assert await session.run([subtracted, assigned, added]) == [8.0, 10.0, 1.0]
        assert await session.run(v) == 8.0
        assert await session.run([subtracted, added]) == [7.0, 9.0]
        assert await session.run(subtracted) == 5.0


async def test_what_is_computed_from_a_use_and_assigned_starts_from_the_start_each_time(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        both = [v.assign(v + 1), v.assign(v + 1)]
    async with opened(kind, graph) as session:
        assert await session.run(both) == [1.0, 1.0]
        assert await session.run(v) == 1.0


# -- feeding -----------------------------------------------------------------------------------------------


async def test_feeding_a_variable_replaces_all_its_reads_and_is_never_stored(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(1.0)
        new = v.assign(7.0)
        with ag.control_dependencies([new]):
            read = v * 10
    async with opened(kind, graph) as session:
        assert await session.run([v, v + 1, read], {v: 5.0}) == [5.0, 6.0, 50.0]
        assert await session.run(v) == 7.0
        assert await session.run(v, {v: 9.0}) == 9.0
        assert await session.run([v, read]) == [7.0, 70.0]


async def test_assign_add_adds_to_what_the_variable_holds_and_not_to_what_is_fed_for_it(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(1.0)
        added = v.assign_add(v)
    async with opened(kind, graph) as session:
        assert await session.run([added, v], {v: 5.0}) == [6.0, 5.0]
        assert await session.run(v) == 6.0


async def test_a_fed_assignment_assigns_nothing(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(1.0)
        new = v.assign(7.0)
        with ag.control_dependencies([new]):
            read = v.read()
    async with opened(kind, graph) as session:
        assert await session.run([new, read, v], {new: 3.0}) == [3.0, 1.0, 1.0]
        assert await session.run(v) == 1.0


async def test_a_fed_read_leaves_other_reads_alone(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(1.0)
        with ag.control_dependencies([v.assign(7.0)]):
            one, two = v.read(), v.read()
    async with opened(kind, graph) as session:
        assert await session.run([one, two, v], {one: 3.0}) == [3.0, 7.0, 1.0]


# -- against an interpreter --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Statement:
    """One node, by what design says of it: its value, of `variable` and of what stands at `operand` and `after`."""

    kind: str
    variable: str
    operand: int
    after: tuple[int, ...]


def built(statements: list[Statement]) -> tuple[ag.Graph, list[ag.Node], dict[str, ag.Variable]]:
    nodes: list[ag.Node] = []
    with ag.Graph() as graph:
        variables = {name: ag.variable(float(number), name) for number, name in enumerate("vw", 1)}
        for number, one in enumerate(statements):
            v = variables[one.variable]
            operand: Any = nodes[one.operand % number] if number else 3.0
            with ag.control_dependencies([nodes[index % number] for index in one.after if number]):
                if one.kind == "use":
                    node = v * 2 if not one.after else v.read() * 2
                elif one.kind == "compute":
                    node = ag.ops.add(ag.constant(1.0), operand)
                elif one.kind == "assign":
                    node = v.assign(operand)
                else:
                    node = v.assign_add(operand)
            nodes.append(node)
    return graph, nodes, variables


def interpreted(
    statements: list[Statement], fetches: list[int], fed: Mapping[str, float]
) -> tuple[list[float], dict[str, float]]:
    """The fetches, and what the variables hold at the end."""
    start = {name: float(number) for number, name in enumerate("vw", 1)}
    depends: list[set[int]] = []
    for number, one in enumerate(statements):
        direct = {index % number for index in one.after if number}
        if number and one.kind != "use":
            direct.add(one.operand % number)
        depends.append(direct.union(*[depends[index] for index in direct]))
    needed = set(fetches).union(*[depends[index] for index in fetches])
    assigns = {
        name: [i for i in sorted(needed) if statements[i].kind in ("assign", "add") and statements[i].variable == name]
        for name in start
    }
    values: dict[int, float] = {}
    for number in sorted(needed):
        one = statements[number]
        operand = values[one.operand % number] if number and one.kind != "use" else 3.0
        earlier = [index for index in assigns[one.variable] if index < number]
        if one.kind == "use":
            seen = [index for index in earlier if index in depends[number]]
            value = values[seen[-1]] if seen else start[one.variable]
            values[number] = 2 * fed.get(one.variable, value)
        elif one.kind == "compute":
            values[number] = 1.0 + operand
        elif one.kind == "assign":
            values[number] = operand
        else:
            values[number] = (values[earlier[-1]] if earlier else start[one.variable]) + operand
    held = {name: values[found[-1]] if found else start[name] for name, found in assigns.items()}
    return [values[index] for index in fetches], held


statement = st.builds(
    Statement,
    st.sampled_from(["use", "use", "compute", "assign", "add"]),
    st.sampled_from("vw"),
    st.integers(0, 20),
    st.lists(st.integers(0, 20), max_size=2).map(tuple),
)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    statements=st.lists(statement, min_size=2, max_size=9),
    fetches=st.lists(st.integers(0, 20), min_size=1, max_size=4),
    fed=st.dictionaries(st.sampled_from("vw"), st.sampled_from([100.0, 200.0]), max_size=1),
)
async def test_any_run_sees_and_leaves_what_an_interpreter_does(
    kind: str, statements: list[Statement], fetches: list[int], fed: dict[str, float]
) -> None:
    graph, nodes, variables = built(statements)
    wanted = [index % len(nodes) for index in fetches]
    expected, held = interpreted(statements, wanted, fed)
    async with opened(kind, graph) as session:
        feeds = {variables[name]: value for name, value in fed.items()}
        assert await session.run([nodes[index] for index in wanted], feeds) == expected
        assert await session.run(variables) == held
