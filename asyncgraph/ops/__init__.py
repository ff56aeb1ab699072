"""The vocabulary: the functions of the Array API standard (2025.12), on nodes."""

from __future__ import annotations

__all__: list[str] = []
