"""Every example runs, and prints what it says it prints.

An example's docstring ends with a line "Prints:" and, under it, indented, the exact lines. One that ends with " ..."
is the beginning of a line: the rest depends on the machine.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def promised(source: str) -> str:
    """The output that the docstring of an example gives."""
    _, prints, output = (ast.get_docstring(ast.parse(source)) or "").rpartition("\nPrints:\n")
    assert prints, 'the docstring must end with a line "Prints:" and the indented output'
    return textwrap.dedent(output).strip("\n") + "\n"


def shortened(output: str, expected: str) -> str:
    """The output, with the lines that are expected to begin like those of the output made to end like them."""
    lines = output.splitlines()
    for number, (line, promise) in enumerate(zip(lines, expected.splitlines(), strict=False)):
        if promise.endswith(" ...") and line.startswith(promise[:-3]):
            lines[number] = promise
    return "\n".join(lines) + "\n"


def test_there_are_examples() -> None:
    assert "quickstart.py" in [path.name for path in EXAMPLES]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_promises(path: Path, tmp_path: Path) -> None:
    expected = promised(path.read_text())
    start = time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=30,
    )
    print(f"{path.name}: {time.perf_counter() - start:.1f} s")  # of at most 5 on an idle machine
    assert run.stderr == ""
    assert shortened(run.stdout, expected) == expected
    assert run.returncode == 0


def test_what_an_example_promises_is_read_as_it_stands() -> None:
    source = '"""Shows a thing.\n\nPrints:\n    a\n      b\n\n    c\n"""\n'
    assert promised(source) == "a\n  b\n\nc\n"
    with pytest.raises(AssertionError, match="must end with a line"):
        promised('"""Shows a thing."""')


def test_a_promise_that_is_left_open_is_the_beginning_of_a_line_and_no_other_is() -> None:
    expected = "why: ...\nexact\n"
    assert shortened("why: no driver\nexact\n", expected) == expected
    for output in ("because\nexact\n", "why: no driver\nexact too\n", "why: no driver\n", "exact\nwhy: no driver\n"):
        assert shortened(output, expected) != expected
