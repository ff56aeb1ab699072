"""The sections, in the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from . import _ceilings, _conformance, _hazards, _numbers, _overlap, _sessions, _survival
from ._runner import Section

_ALL: Final = (
    Section("env", 25, (_ceilings.device, _ceilings.cold_start)),
    Section("launch", 15, (_ceilings.calls, _ceilings.streams_and_events)),
    Section("copy", 25, (_ceilings.copies, _ceilings.on_the_device, _ceilings.pinned_memory)),
    Section("overlap", 20, (_overlap.copies_and_kernels, _overlap.small_kernels)),
    Section("complete", 15, (_overlap.wake_up, _overlap.beside_a_dispatcher)),
    Section("hazard", 25, (_hazards.memory_used_again, _hazards.out_of_memory, _hazards.lost_context)),
    Section(
        "num",
        20,
        (_numbers.dtypes, _numbers.single_values, _numbers.repeated, _numbers.exchange_with_torch),
    ),
    Section(
        "ag-latency",
        30,
        (_sessions.one_run, _sessions.against_cupy_by_hand, _sessions.many_runs_at_once),
    ),
    Section("ag-results", 10, (_sessions.results_on_the_device, _sessions.tensors_of_torch)),
    Section("ag-cancel", 15, (_survival.cancellations,)),
    Section("ag-oom", 10, (_survival.too_much_memory,)),
    Section("ag-end", 10, (_survival.end_of_a_process,)),
    Section("ag-lost", 25, (_survival.lost_device,)),
    # Last: it has more to do on an empty cache of kernels than there is time for.
    Section("ag-conformance", None, (_conformance.conformance,)),
)

SECTIONS: Final[Mapping[str, Section]] = {section.name: section for section in _ALL}
"""By name."""
