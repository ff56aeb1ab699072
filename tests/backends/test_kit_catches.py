"""Each promise about asynchronous devices, lifetimes and faults, broken once: the test for it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from inspect import signature
from threading import Event
from typing import Any

import pytest

from asyncgraph._plan.program import Placement
from asyncgraph._registry import registry
from asyncgraph.abc import Backend, Device, Done
from asyncgraph.testing import BackendConformance
from asyncgraph.testing._kit import asynchronous, base, watching
from asyncgraph.testing._kit.asynchronous import Asynchronous
from asyncgraph.testing._kit.watching import WatchingBackend

from . import wrong_backend as wrong
from .wrong_backend import WrongBackend


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What never happens is not waited for."""
    for module in (asynchronous, base, watching):
        monkeypatch.setattr(module, "LIMIT_S", 2.0)


@contextmanager
def opened(make: Callable[[], Backend]) -> Iterator[Backend]:
    fixture = base.opened(make)
    yield next(fixture)
    next(fixture, None)


def play(make: Callable[[], WrongBackend], test: str, kit_class: type[BackendConformance] | None = None) -> None:
    """Calls a test of the kit, as pytest would: "test_name" or "test_name[argument]"."""
    name, _, argument = test.partition("[")
    made: list[WrongBackend] = []

    def remember() -> WrongBackend:
        made.append(make())
        return made[-1]

    class Kit(kit_class or BackendConformance):
        backend_class = staticmethod(remember)

    method = getattr(Kit(), name)
    try:
        with ExitStack() as stack:
            backend = stack.enter_context(opened(remember))
            watched = WatchingBackend(backend)
            stack.enter_context(registry.lend(watched))
            values: dict[str, Any] = {
                "backend": backend, "delayed": backend, "another": backend, "devices": backend.devices(),
                "watching": watched, "faulty": watched,
            }  # fmt: skip
            method(**{one: values.get(one, argument.removesuffix("]")) for one in signature(method).parameters})
    finally:
        for one in made:
            one.inside.close()


FAULTS: dict[tuple[Any, str], str] = {
    (
        wrong.done_before_the_device,
        "test_when_done_is_called_the_device_reads_and_writes_no_more[returns]",
    ): "Arrays are not equal",
    (
        wrong.done_before_the_device_if_work_raises,
        "test_when_done_is_called_the_device_reads_and_writes_no_more[raises]",
    ): "was read before the device was done|Arrays are not equal",
    (
        "to_host reads too early",
        "test_when_done_is_called_the_device_reads_and_writes_no_more[returns]",
    ): "Arrays are not equal",
    (
        "to_device reads what work has dropped",
        "test_when_done_is_called_the_device_reads_and_writes_no_more[returns]",
    ): "Arrays are not equal",
    (
        wrong.done_twice,
        "test_done_is_called_once_with_what_work_raised",
    ): "ValueError.*ValueError.*!=.*ValueError",
    (wrong.done_without_the_error, "test_done_is_called_once_with_what_work_raised"): r"\[None\], \[None\]",
    (wrong.done_with_another_error, "test_done_is_called_once_with_what_work_raised"): "RuntimeError.*ValueError",
    (wrong.submit_waits_for_the_device, "test_submit_returns_while_the_device_is_busy"): "submit has not returned",
    (wrong.work_in_the_callers_thread, "test_what_is_submitted_to_a_device_is_begun_in_order"): "not in",
    (wrong.the_second_after_the_third, "test_what_is_submitted_to_a_device_is_begun_in_order"): "0, 2, 1, 3",
    (wrong.keeps_what_was_submitted, "test_what_was_submitted_is_dropped_when_it_is_done"): "2 == 0",
    ("close ends nothing", "test_closing_ends_all_threads_and_may_be_repeated"): "close did not wait|asyncgraph late",
    ("close may not be repeated", "test_closing_ends_all_threads_and_may_be_repeated"): "closed twice",
    ("to_device says where it is not", "test_an_array_is_taken_over_dlpack_where_that_is_declared"): "12, 7",
    ("from_dlpack gives another", "test_an_array_is_taken_over_dlpack_where_that_is_declared"): r"\(2,\)",
    ("details that JSON has not", "test_its_details_are_values_that_json_has"): "not JSON serializable",
    ("devices are named twice", "test_it_has_a_name_and_distinct_devices"): "2 == 4",
    ("to_host reads too early", "test_a_large_array_comes_back_as_it_was"): "Arrays are not equal",
    ("to_host reads too early", "test_values_go_from_device_to_device_through_the_host"): "Arrays are not equal",
    (
        "to_device gives another device zeros",
        "test_values_go_from_device_to_device_where_that_is_declared",
    ): r"0\.0 \(ACTUAL\), 1\.0 \(DESIRED\)",
    (
        "to_device says where it is not",
        "test_an_op_that_computes_on_a_device_is_given_its_arrays_and_checked_by_theirs",
    ): "ElsewhereArray",
    ("to_host gives a class of its own", "test_results_for_the_host_are_numpy_arrays"): "OwnArray",
    ("to_host gives a class of its own", "test_user_ops_get_numpy_arrays_and_give_them_back"): "OwnArray",
    ("from_dlpack gives another", "test_a_result_on_a_device_is_fed_back_over_dlpack_without_a_transfer"): "0.0, 0.0",
    (wrong.tries_again_and_again, "test_a_work_that_runs_out_of_memory_is_called_twice_at_most"): "3 <= 2",
    (wrong.done_with_another_error, "test_what_fails_ends_its_run_by_its_own_error[async]"): "square",
    (wrong.never_the_same_after_an_error, "test_what_fails_ends_its_run_by_its_own_error[blocking]"): "square",
    (
        wrong.never_the_same_after_an_error,
        "test_memory_that_runs_out_is_a_memory_error_at_worst[async]",
    ): "as it is tried",
    ("to_device keeps what it was given", "test_a_run_that_failed_keeps_nothing[blocking]"): "keeps what was fed",
    ("to_device keeps what it was given", "test_a_run_that_failed_keeps_nothing[async]"): "keeps what was fed",
    ("to_device keeps what it was given", "test_arrays_of_a_run_live_as_long_as_its_results[async]"): "what was fed",
    (wrong.loses_all_devices_with_one, "test_a_lost_device_ends_its_own_runs_alone[async]"): "late:0 is lost",
    (wrong.loses_all_devices_with_one, "test_a_lost_device_ends_its_own_runs_alone[blocking]"): "late:0 is lost",
}
"""What the test says, for each fault and the test for it."""


@pytest.mark.parametrize("test", dict.fromkeys(test for _, test in FAULTS))
def test_the_kit_passes_a_backend_without_a_fault(test: str) -> None:
    play(WrongBackend, test)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("fault", "test"), FAULTS)
def test_a_fault_of_a_backend_fails_the_test_for_it(fault: Any, test: str) -> None:
    with pytest.raises(Exception, match=FAULTS[fault, test]):
        play(partial(WrongBackend, fault), test)


# -- sessions that break the rules -----------------------------------------------------------------------


def calls_kernels_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Placement, "is_asynchronous", False)


def waits_where_it_submits(patch: pytest.MonkeyPatch) -> None:
    submit = WatchingBackend.submit

    def blocking(self: WatchingBackend, device: Device, work: Callable[[], None], done: Done) -> None:
        over = Event()

        def both(error: BaseException | None) -> None:
            done(error)
            over.set()

        submit(self, device, work, both)
        over.wait(10)

    patch.setattr(WatchingBackend, "submit", blocking)


def does_not_wait_for_the_device(patch: pytest.MonkeyPatch) -> None:
    held = WatchingBackend._done

    def at_once(self: WatchingBackend, device: Device, done: Done, error: BaseException | None) -> None:
        held(self, device, lambda _: None, error)
        done(error)

    patch.setattr(WatchingBackend, "_done", at_once)


def submits_twice(patch: pytest.MonkeyPatch) -> None:
    submit = WatchingBackend.submit

    def twice(self: WatchingBackend, device: Device, work: Callable[[], None], done: Done) -> None:
        submit(self, device, lambda: None, lambda _: None)
        submit(self, device, work, done)

    patch.setattr(WatchingBackend, "submit", twice)


def drops_what_was_fed(patch: pytest.MonkeyPatch) -> None:
    fed = Asynchronous._fed

    def copied(self: Asynchronous, made: list[Any]) -> Any:
        return fed(self, made).copy()

    patch.setattr(Asynchronous, "_fed", copied)


def moves_twice(patch: pytest.MonkeyPatch) -> None:
    to_device = WatchingBackend.to_device

    def twice(self: WatchingBackend, array: Any, device: Device) -> Any:
        to_device(self, array, device)
        return to_device(self, array, device)

    patch.setattr(WatchingBackend, "to_device", twice)


def mixes_up_devices(patch: pytest.MonkeyPatch) -> None:
    where = WatchingBackend.device_of

    def another(self: WatchingBackend, array: Any) -> Device | None:
        device = where(self, array)
        return device and self.devices()[1 - device.index]

    patch.setattr(WatchingBackend, "device_of", another)


LOOP = "test_the_loop_goes_on_while_a_device_is_busy"
ENDED = "test_a_run_that_is_ended_waits_for_the_device_and_submits_no_more"
BROKEN: dict[tuple[Callable[[pytest.MonkeyPatch], None], str], str] = {
    (calls_kernels_at_once, "test_a_session_uses_a_device_inside_of_works_alone"): "was called outside of any work",
    (calls_kernels_at_once, "test_what_waits_for_nothing_is_submitted_at_once"): "was called outside of any work",
    (moves_twice, "test_a_value_is_moved_once_to_each_device_that_needs_it"): "4 == ",
    (mixes_up_devices, "test_nodes_run_on_the_device_they_were_built_for"): "late",
    (mixes_up_devices, "test_many_runs_at_once_do_not_mix"): "was given an array of late:",
    (submits_twice, "test_what_waits_for_nothing_is_submitted_at_once"): "2 == 1",
    (waits_where_it_submits, f"{LOOP}[feeds]"): "the loop was blocked",
    (does_not_wait_for_the_device, f"{LOOP}[feeds]"): "a run ended before the device was done",
    (does_not_wait_for_the_device, f"{LOOP}[a constant]"): "a run ended before the device was done",
    (waits_where_it_submits, "test_a_busy_device_is_given_the_next_run"): "the loop was blocked",
    (
        drops_what_was_fed,
        "test_inputs_live_until_the_device_is_done",
    ): "what was fed, or what a user op returned, is gone",
    (does_not_wait_for_the_device, f"{ENDED}[cancel]"): "a run ended before the device was done",
    (does_not_wait_for_the_device, f"{ENDED}[timeout]"): "a run ended before the device was done",
    (drops_what_was_fed, f"{ENDED}[cancel]"): "what was fed is gone",
    (does_not_wait_for_the_device, "test_a_device_that_is_lost_ends_what_was_submitted"): "RunValues",
}
"""What the test says, for each rule that a session might break and the test for it."""


@pytest.mark.parametrize("test", dict.fromkeys(test for _, test in BROKEN))
def test_the_kit_passes_sessions_as_they_are(test: str) -> None:
    play(WrongBackend, test)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("broken", "test"), BROKEN)
def test_a_session_that_breaks_a_rule_fails_the_test_for_it(
    broken: Callable[[pytest.MonkeyPatch], None], test: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    with pytest.raises(AssertionError, match=BROKEN[broken, test]):
        play(WrongBackend, test)
