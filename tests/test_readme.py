"""The README's programs print what stands under them, and its commands are what the gate runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
WITH_OUTPUT = re.findall(r"^```python\n(.*?)^```\n\s*^```text\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
COMMANDS = [
    line.strip()
    for language, text in BLOCKS
    if language in ("sh", "bash", "shell", "console")
    for line in text.splitlines()
    if line.strip() and not line.lstrip().startswith("#")
]
BEFORE_THE_GATE = ("git clone ", "cd ", "pip install uv")
"""What the gate does in its own way, since it makes the clone and the environment."""


def test_the_readme_has_programs_with_output_and_commands() -> None:
    assert WITH_OUTPUT
    assert COMMANDS


@pytest.mark.parametrize(("program", "output"), WITH_OUTPUT, ids=range(len(WITH_OUTPUT)))
def test_a_program_of_the_readme_prints_what_stands_under_it(program: str, output: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=30,
    )  # fmt: skip
    assert run.stderr == ""
    assert run.stdout == output


@pytest.mark.parametrize("program", [text for language, text in BLOCKS if language == "python"])
def test_every_program_of_the_readme_can_be_compiled(program: str) -> None:
    compile(program, "README.md", "exec", flags=0x2000)  # top-level await, as in a notebook


def test_the_backend_that_the_readme_shows_is_the_whole_example() -> None:
    example = (ROOT / "examples" / "custom_backend.py").read_text()
    assert [text for language, text in BLOCKS if language == "python" and "(Backend)" in text] == [example]


@pytest.mark.parametrize("anchor", re.findall(r"\]\(#([^)]+)\)", README))
def test_a_chapter_that_the_readme_links_to_exists(anchor: str) -> None:
    chapters = re.findall(r"^##+ (.*)$", README, re.MULTILINE)
    assert anchor in [re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in chapters]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_is_one_that_the_gate_runs(command: str) -> None:
    if not command.startswith(BEFORE_THE_GATE):
        assert command in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("path", re.findall(r"\]\((?!https?://|#)([^)#]+)", README))
def test_a_file_that_the_readme_links_to_exists(path: str) -> None:
    assert (ROOT / path).exists()
