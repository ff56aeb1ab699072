"""Happens-before by vector clocks: which of two accesses to the same bytes is ordered after the other.

An actor is a stream or a thread of the host. It counts what it does, and its clock says of every actor up to which
count it is ordered after that actor. Launching on a stream, recording and waiting for events, and hand-overs between
threads copy clocks from one to the other. Two accesses of which one writes, and of which neither is ordered after the
other, are a race: whether the program is right then depends on luck. It is found in whatever order things really ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

Clock = dict[int, int]
"""For each actor, up to which count of its own it is known to be done. Actors left out are not known at all."""


class RaceError(AssertionError):
    """Two accesses to the same memory that nothing orders, or memory given up that a device may still use."""


def join(clock: Clock, other: Clock) -> None:
    """Lets `clock` know what `other` knows."""
    # A copy, as a thread may tick its own entry, and add actors, while another looks.
    for actor, count in other.copy().items():
        if clock.get(actor, 0) < count:
            clock[actor] = count


@final
@dataclass(frozen=True, slots=True)
class Access:
    """One actor's use of the bytes from `start` to before `stop` of a block, as the `count`-th thing it did."""

    actor: int
    count: int
    start: int
    stop: int
    writes: bool
    what: str

    def known_by(self, clock: Clock) -> bool:
        """Whether who has this clock is ordered after the access."""
        return clock.get(self.actor, 0) >= self.count

    def clashes_with(self, start: int, stop: int, writes: bool) -> bool:
        """Whether it matters which comes first: they overlap, and one of the two writes."""
        return (writes or self.writes) and self.start < stop and start < self.stop


@final
class Accesses:
    """The accesses to a block that a later one might not be ordered after."""

    def __init__(self) -> None:
        self._kept: list[Access] = []

    def first_unordered(self, start: int, stop: int, writes: bool, clock: Clock) -> Access | None:
        """An access that clashes with one by who has this clock, and that it isn't ordered after."""
        clashing = (one for one in self._kept if one.clashes_with(start, stop, writes))
        return next((one for one in clashing if not one.known_by(clock)), None)

    def add(self, new: Access) -> None:
        """Keeps one that is ordered after all that it clashes with, in place of those that it covers."""
        # What is ordered after a write is ordered after all that the write was: only the latest of each is needed.
        self._kept = [one for one in self._kept if not self._stands_for(new, one)]
        self._kept.append(new)

    def settle(self, clock: Clock) -> None:
        """Forgets the accesses that all who come later are ordered after, since this clock knows them."""
        self._kept = [one for one in self._kept if not one.known_by(clock)]

    def unknown_to(self, clock: Clock) -> list[Access]:
        """The accesses that who has this clock isn't ordered after."""
        return [one for one in self._kept if not one.known_by(clock)]

    @staticmethod
    def _stands_for(new: Access, old: Access) -> bool:
        covers = new.start <= old.start and old.stop <= new.stop
        return covers and (new.writes or (not old.writes and old.actor == new.actor))
