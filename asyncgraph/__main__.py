"""The command line: `python -m asyncgraph`, or `asyncgraph`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import cast

from ._doctor import as_json, as_text, examine
from ._session.placement import REQUIRE_GPU, gpu_required


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what the arguments of the command line ask for, or those given.

    Returns:
        The exit status: 0 if all is well.

    Raises:
        SystemExit: the arguments mean nothing, or ask for help.
    """
    parser = ArgumentParser(prog="asyncgraph", description="TensorFlow 1's Session, rebuilt for asyncio.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    told = "what is installed, which devices can be used, and why a GPU is not"
    command = commands.add_parser("doctor", help=f"tells {told}", description=f"Tells {told}.")
    command.add_argument("--json", action="store_true", help="as a JSON object")
    command.add_argument(
        "--require-gpu",
        action="store_true",
        help=f"exit with 1 if no GPU can be used; also if {REQUIRE_GPU}=1 is set in the environment",
    )
    command.set_defaults(run=_doctor)
    asked = parser.parse_args(arguments)
    return cast("Callable[[Namespace], int]", asked.run)(asked)


def _doctor(asked: Namespace) -> int:
    report = examine()
    print(as_json(report) if asked.json else as_text(report))
    if report.gpus or not (asked.require_gpu or gpu_required()):
        return 0
    print("a GPU is required, but none can be used\n" + report.no_gpu, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
