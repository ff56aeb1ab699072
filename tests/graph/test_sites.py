"""Each node knows the line of the program that built it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import asyncgraph
from asyncgraph._graph.building import placeholder
from asyncgraph._graph.graph import Graph
from asyncgraph._graph.sites import Site, resolve_site


def _line() -> int:
    frame: FrameType = sys._getframe(1)
    return frame.f_lineno


def test_a_node_knows_the_file_line_and_function_that_built_it() -> None:
    with Graph():
        node, line = placeholder("int8"), _line()
    site = Site(__file__, line, "test_a_node_knows_the_file_line_and_function_that_built_it")
    assert node.site == site
    assert str(site) == f"{__file__}:{line}, in {site.function}"


def test_an_operator_knows_the_line_of_a_call_that_spans_several() -> None:
    with Graph():
        x = placeholder("int8")
        before = _line()
        # fmt: off
        node = (
            x
            + x
        )
        # fmt: on
    assert node.site is not None
    assert before < node.site.lineno <= before + 5


def test_a_function_of_the_user_that_builds_is_the_site_and_its_caller_is_not() -> None:
    def helper() -> tuple[object, int]:
        return placeholder("int8").site, _line()

    with Graph():
        site, line = helper()
    assert isinstance(site, Site)
    assert site.lineno == line
    assert site.function.endswith("<locals>.helper")


def test_lines_of_this_package_are_never_the_site() -> None:
    package = str(Path(asyncgraph.__file__).parent)
    with Graph() as graph:
        x = placeholder("float64", (2,))
        x + [1.0, 2.0]
        graph.constant(1)
    assert all(node.site is not None and not node.site.filename.startswith(package) for node in graph.nodes)


def test_code_that_lies_beside_the_package_under_a_longer_name_is_the_users() -> None:
    beside = str(Path(asyncgraph.__file__).parent) + "_user.py"
    scope = {"placeholder": placeholder}
    with Graph() as graph:
        exec(compile("\nplaceholder('int8')", beside, "exec"), scope)
    assert graph.nodes[0].site == Site(beside, 2, "<module>")


def test_a_site_that_was_kept_is_given_back_as_it_is() -> None:
    site = Site("a.py", 3, "f")
    assert resolve_site(site) is site
    assert resolve_site(None) is None
