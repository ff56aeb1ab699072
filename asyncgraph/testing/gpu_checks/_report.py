"""The table and the JSON file."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Final, final

from ._rows import Row, Value, Verdict

FORMAT: Final = 1
"""Of the JSON file."""
_WIDEST: Final = 72
_HEADINGS: Final = ("section", "check", "value", "unit", "verdict", "expected")


@final
class Report:
    """What was found so far. Rows are shown on stderr as they come.

    Fields:
        path: the JSON file.
        facts: what was looked at: card and versions.
        stand_in: whether that is no card, so that no figure counts.
        reason: why nothing was looked at.
    """

    def __init__(self, path: Path, device: str) -> None:
        self.path: Final = path
        self.facts: Mapping[str, Value] = {}
        self.stand_in = False
        self.reason: str | None = None
        self._device: Final = device
        self._date: Final = datetime.now(UTC).isoformat(timespec="seconds")
        self._start_s: Final = perf_counter()
        self._rows: Final[list[tuple[str, Row]]] = []

    def add(self, section: str, row: Row) -> None:
        """Takes a row."""
        if self.stand_in:
            row = row.on_a_stand_in()
        self._rows.append((section, row))
        print("  ".join(_cells(section, row)), file=sys.stderr, flush=True)

    @property
    def rows(self) -> list[tuple[str, Row]]:
        """The rows so far, each with its section."""
        return list(self._rows)

    @property
    def failures(self) -> int:
        """How many rows say that something does not hold that must."""
        return self._counts()[Verdict.FAILED]

    def table(self) -> str:
        """All of it, to be printed."""
        subject = "stand-in, no card: nothing here is a figure" if self.stand_in else self.facts.get("card", "no card")
        lines = [f"asyncgraph on {self._device}: {subject}", f"{self._date}, source {source_hash()[:12]}"]
        lines += [f"  {name}: {value}" for name, value in self.facts.items()]
        if self.reason is not None:
            lines.append(self.reason)
        cells = [_HEADINGS, *[_cells(section, row) for section, row in self.rows]]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        if len(cells) > 1:
            lines += ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
        # What does not fit into the table.
        wrong = [(section, row) for section, row in self.rows if row.verdict is Verdict.FAILED]
        lines += [f"FAIL {section}, {row.name}: {row.value}" for section, row in wrong if len(str(row.value)) > _WIDEST]
        counts = self._counts()
        summary = ", ".join(f"{counts[one]} {one.value}" for one in Verdict if counts[one])
        return "\n".join([*lines, f"{summary or 'no rows'}; {perf_counter() - self._start_s:.0f} s"])

    def write(self) -> None:
        """Writes the JSON file, with what there is."""
        content = {
            "format": FORMAT,
            "date": self._date,
            "device": self._device,
            "subject": "stand-in" if self.stand_in else "card" if self.facts else "none",
            "reason": self.reason,
            "facts": dict(self.facts),
            "source_sha256": source_hash(),
            "seconds": round(perf_counter() - self._start_s, 1),
            "rows": [_as_json(section, row) for section, row in self.rows],
        }
        self.path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def _counts(self) -> Counter[Verdict]:
        return Counter(row.verdict for _, row in self._rows)


def source_hash() -> str:
    """SHA-256 of the source of these checks, so that figures say what they are figures of."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _as_json(section: str, row: Row) -> dict[str, object]:
    return {"section": section, **asdict(row), "verdict": row.verdict.value}


def _cells(section: str, row: Row) -> tuple[str, ...]:
    value = f"{row.value:.4g}" if isinstance(row.value, float) else str(row.value)
    texts = (section, row.name, value, row.unit, row.verdict.value, row.expected)
    return tuple(text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…" for text in texts)
