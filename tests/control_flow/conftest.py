"""The graph that a test builds in, and a condition."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import asyncgraph as ag


@pytest.fixture
def graph() -> Iterator[ag.Graph]:
    with ag.Graph() as graph:
        yield graph


@pytest.fixture
def p(graph: ag.Graph) -> ag.Node:
    return ag.placeholder("bool", (), name="p")
