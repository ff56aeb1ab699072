"""Random readers and writers in random orders are serializable; and each fault in what isolates them is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from asyncgraph._plan.plan import Plan
from asyncgraph._session import transaction as transactions
from asyncgraph._session.future import PlainRunFuture
from asyncgraph._session.inflight import RunsInFlight
from asyncgraph._session.locks import LockQueue, LockRequest
from asyncgraph._session.store import Store
from asyncgraph._session.transaction import Transaction
from asyncgraph.testing.__main__ import campaign, main
from asyncgraph.testing._play import play
from asyncgraph.testing._transactions import TransactionScenario

FIRST = 2_000_000
"""Other seeds than those of campaigns."""


def test_hundreds_of_scenarios_are_as_promised() -> None:
    said = campaign(range(FIRST, FIRST + 300), TransactionScenario)
    assert said.startswith("300 scenarios in ")
    for seen in ("value", "CancelledError", "PlantedError", "RunTimeoutError", "TimeoutError", "StateConflictError"):
        assert seen in said


def test_a_scenario_is_the_same_each_time() -> None:
    for seed in range(FIRST, FIRST + 20):
        assert play(seed, TransactionScenario) == play(seed, TransactionScenario)


def test_the_command_line_plays_both_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--count", "3", "--seed", "5"])
    assert [line.partition(" of ")[0] for line in capsys.readouterr().out.splitlines()] == [
        "3 scenarios in 3 different orders"
    ] * 2


# -- faults ------------------------------------------------------------------------------------------------


def grant_everybody(patch: pytest.MonkeyPatch) -> None:
    def enter(self: LockQueue, request: LockRequest) -> bool:
        request.granted = True
        return True

    patch.setattr(LockQueue, "enter", enter)
    patch.setattr(LockQueue, "leave", lambda self, request: [])


def lock_nothing_that_is_only_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transactions, "LockRequest", lambda reads, *others: LockRequest((), *others))


def grant_nobody_who_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LockQueue, "_grant_head", lambda self, variable: [])


def let_go_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    leave = Store.leave
    early: set[LockRequest] = set()

    def faulty(self: Store, request: LockRequest, new: Any = None, first: Any = None) -> None:
        if request in early:
            self.values = {**(first or {}), **self.values, **(new or {})}
        else:
            leave(self, request, new or {}, first or {})

    def succeed(self: Transaction, plan: Plan, frame: list[Any]) -> None:
        computed(self, plan, frame)
        if self._request is not None:
            early.add(self._request)
            leave(self.store, self._request)

    computed = Transaction.succeed
    patch.setattr(Store, "leave", faulty)
    patch.setattr(Transaction, "succeed", succeed)


def commit_one_variable_of_several(patch: pytest.MonkeyPatch) -> None:
    leave = Store.leave

    def faulty(self: Store, request: LockRequest, new: Any = None, first: Any = None) -> None:
        leave(self, request, dict(list((new or {}).items())[:1]), first or {})

    patch.setattr(Store, "leave", faulty)


def commit_one_variable_after_the_other(patch: pytest.MonkeyPatch) -> None:
    """As a reader sees it that comes in between."""
    begin, leave = Transaction.begin, Store.leave
    half: dict[Store, Any] = {}

    def faulty(self: Store, request: LockRequest, new: Any = None, first: Any = None) -> None:
        half[self] = {**self.values, **dict(list((new or {}).items())[:1])}
        leave(self, request, new or {}, first or {})

    def early(self: Transaction, plan: Plan) -> Any:
        values = self.store.values
        if not plan.writes and all(one in half.get(self.store, ()) for one in plan.variables):
            self.store.values = half[self.store]
        try:
            return begin(self, plan)
        finally:
            self.store.values = values

    patch.setattr(Store, "leave", faulty)
    patch.setattr(Transaction, "begin", early)


def read_what_was_committed_some_time_ago(patch: pytest.MonkeyPatch) -> None:
    begin = Transaction.begin
    old: dict[Store, Any] = {}

    def stale(self: Transaction, plan: Plan) -> Any:
        values = self.store.values
        if not plan.writes and all(one in old.setdefault(self.store, values) for one in plan.variables):
            self.store.values = old[self.store]
        try:
            return begin(self, plan)
        finally:
            self.store.values = values

    patch.setattr(Transaction, "begin", stale)


def commit_before_the_caller_has_the_values(patch: pytest.MonkeyPatch) -> None:
    async def take(self: PlainRunFuture[Any]) -> Any:
        try:
            return await self
        finally:
            del self

    patch.setattr(PlainRunFuture, "take", take)


def commit_also_what_failed(patch: pytest.MonkeyPatch) -> None:
    finish = PlainRunFuture._finish

    def faulty(self: PlainRunFuture[Any], error: BaseException | None) -> None:
        run, transaction = self._run, self._transaction
        if error is not None and run is not None and transaction is not None and len(run.frame):
            frame = run.frame
            new = {one.variable: frame[one.slot] for one in run.plan.assigned if frame[one.slot] is not None}
            transaction.store.values = {**transaction.store.values, **new}
        finish(self, error)

    patch.setattr(PlainRunFuture, "_finish", faulty)
    patch.setattr("asyncgraph._exec.run.Scheduler.succeeded", True)


def keep_what_others_may_write_to(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transactions, "kept", lambda value, keep, variable, on_host: value)


def give_first_values_without_a_lock(patch: pytest.MonkeyPatch) -> None:
    def needs(plan: Plan) -> Any:
        return frozenset(), plan.writes.difference(plan.program.state.initialized)

    patch.setattr(transactions, "_needs_of", needs)
    patch.setattr(
        RunsInFlight, "initialize", lambda self, future, args: self._enter_for_another(future.initialize(args))
    )
    leave = Store.leave

    def faulty(self: Store, request: LockRequest, new: Any = None, first: Any = None) -> None:
        leave(self, request, {**(first or {}), **(new or {})})

    patch.setattr(Store, "leave", faulty)


def wait_for_a_place_with_variables_in_hand(patch: pytest.MonkeyPatch) -> None:
    def start(self: RunsInFlight, future: PlainRunFuture[Any]) -> None:
        if not future.is_prepared:
            future.prepare()
        if not future.takes_state():
            return
        if not future.nested and not future.has_place:
            if self.executing >= self._most_executing:
                self.waiting[future] = None
                return
            self._give_place(future)
        future.start()

    patch.setattr(RunsInFlight, "start", start)


def take_no_notice_of_who_holds_variables(patch: pytest.MonkeyPatch) -> None:
    def replace(self: Store, old: Any, new: Any) -> bool:
        self.values = new
        return True

    patch.setattr(Store, "idle", True)
    patch.setattr(Store, "replace", replace)


def let_nested_runs_see_what_was_there_before_others_of_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transaction, "_show_outer_runs", lambda self: None)


def forget_who_is_nested(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("asyncgraph._session.future.parent_in", lambda context, store: None)
    patch.setattr("asyncgraph._session.inline.parent_in", lambda context, store: None)


@pytest.mark.parametrize(
    "plant",
    [
        grant_everybody,
        lock_nothing_that_is_only_read,
        grant_nobody_who_waits,
        let_go_before_the_commit,
        commit_one_variable_of_several,
        commit_one_variable_after_the_other,
        read_what_was_committed_some_time_ago,
        commit_before_the_caller_has_the_values,
        commit_also_what_failed,
        keep_what_others_may_write_to,
        give_first_values_without_a_lock,
        wait_for_a_place_with_variables_in_hand,
        take_no_notice_of_who_holds_variables,
        let_nested_runs_see_what_was_there_before_others_of_them,
        forget_who_is_nested,
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::RuntimeWarning")
def test_a_fault_of_what_isolates_runs_is_found_within_500_scenarios(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="^seed "):
        campaign(range(FIRST, FIRST + 500), TransactionScenario)
