"""Which tests of the public suite a GPU in the host's place does not pass, and why: for ASYNCGRAPH_BACKEND=stand-in.

A test is named by its id below tests/, without its parameters, or a file by its path. The tables stay true: what is
expected to fail has to, and `test_expected.py` asks whether there is what they name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pytest

FAILS: Final[Mapping[str, Sequence[str]]] = {
    "what is read of a GPU is a copy, and so shares no memory with feeds or constants": [
        "session/test_values.py::test_a_fetch_that_shares_memory_with_a_feed_or_constant_is_read_only",
    ],
    "the stand-in's GPU memory is of the host, where the test counts it": [
        "cases/test_layout.py::test_ag_038_a_read_only_feed_is_not_copied",
    ],
    "a GPU's kernels neither warn nor look at NumPy's errstate": [
        "cases/test_context.py::test_ag_112_errstate_reaches_kernels_and_user_ops_wherever_they_run",
        "cases/test_gradient.py::test_ag_194_the_warning_names_the_node_that_divides_by_zero",
        "cases/test_num_edge.py::test_ag_166_the_mean_along_an_empty_axis_is_nan_and_warns_as_numpy_does",
        "cases/test_num_edge.py::test_ag_170_division_by_zero_and_remainders_of_infinity",
        "cases/test_num_edge.py::test_ag_170_errstate_is_the_callers",
        "cases/test_num_precision.py::test_ag_178_half_precision_sums_overflow_and_means_do_not",
        "cases/test_num_promotion.py::test_ag_177_a_python_float_too_large_overflows_and_warns",
    ],
    "the plan has transfers, and no kernels on the loop or a worker": [
        "session/test_explain.py::test_an_explanation_says_what_runs_and_why_and_what_does_not",
        "session/test_explain.py::test_an_explanation_says_where_kernels_run",
    ],
    "transfers have spans, too, by the names of the nodes that they move": [
        "session/test_values.py::test_node_seconds_has_every_node_that_ran_when_traced",
        "test_tracing.py::test_a_span_for_each_node_that_ran",
        "test_tracing.py::test_the_file_is_in_the_trace_event_format",
        "test_tracing.py::test_a_failed_run_has_a_trace_up_to_where_it_failed",
    ],
    "nothing runs inline: other tasks have their turns while a run waits for the GPU": [
        "session/test_inline.py::test_a_run_of_several_chunks_that_has_time_is_done_in_its_own_turn",
    ],
    "nothing is cheap, so nothing waits for a turn of the loop": [
        "session/test_inline.py::test_a_run_of_several_chunks_that_is_cancelled_half_way_keeps_no_values",
        "session/test_inline.py::test_a_run_that_is_fed_too_much_to_be_cheap_does_not_wait_for_a_turn_of_the_cheap_ones",
    ],
    "a worker makes the plan, as it may have to wait for the GPU: so a run whose plan is known overtakes": [
        "session/test_session.py::test_statistics_are_a_snapshot_of_what_was_done_and_is_held",
    ],
    "CuPy's indices that are out of bounds wrap around": [
        "training/test_losses.py::test_a_label_that_is_no_class_is_an_error_and_no_number",
        "training/test_optimizers.py::test_a_step_that_fails_changes_no_variable_and_no_slot",
        "training/test_progress.py::test_a_bar_is_closed_if_the_epoch_fails",
    ],
    "the backend's threads stay when a session is closed": [
        "session/test_session.py::test_a_run_that_waited_for_its_turn_while_the_session_closed_leaves_nothing",
    ],
}
"""By the reason: tests that are of the host by their nature, and those that a GPU does not pass yet."""

LEFT_OUT: Final[Mapping[str, Sequence[str]]] = {
    "it has a stand-in of its own": [
        "cases/test_gpu.py",
    ],
    "its program runs in another process, where no stand-in is": [
        "cases/test_errors.py::test_ag_083_an_interrupt_raised_in_an_op_reaches_the_caller_of_asyncio_run",
        "cases/test_lifecycle.py::test_ag_105_a_forked_child_makes_sessions_of_its_own_and_is_refused_those_of_its_parent",
        "cases/test_lifecycle.py::test_ag_105_a_spawned_child_unpickles_the_graph_and_runs_it",
        "loading/test_changed.py::test_a_pickled_graph_keeps_the_absolute_path_and_reads_in_another_process",
        "session/test_blocking.py::test_an_interrupt_of_the_waiting_thread_ends_the_run_first",
    ],
    "nobody waits for the workers of a session that was not closed, and here there are some": [
        "cases/test_lifecycle.py::test_ag_103_a_graph_serves_any_number_of_loops_and_a_session_one",
        "session/test_session.py::test_without_an_asyncio_loop_a_session_says_what_runs_it",
    ],
    "it has no kernel, and takes seconds": [
        "cases/test_graph_form.py::test_ag_060_very_many_nodes_side_by_side",
    ],
}
"""By the reason: tests that would take time and show nothing, or that luck decides."""


def apply(items: Iterable[pytest.Item]) -> None:
    """Marks those of the collected tests that the tables name."""
    marks: dict[str, pytest.MarkDecorator] = {}
    for reason, tests in FAILS.items():
        marks |= dict.fromkeys(tests, pytest.mark.xfail(reason=reason, strict=True))
    for reason, tests in LEFT_OUT.items():
        marks |= dict.fromkeys(tests, pytest.mark.skip(reason=reason))
    for item in items:
        test = item.nodeid.removeprefix("tests/").partition("[")[0]
        for name in (test, test.partition("::")[0]):
            if name in marks:
                item.add_marker(marks[name])
