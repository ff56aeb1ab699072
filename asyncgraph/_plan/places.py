"""Where nodes belong that branches need.

A place is a branch of a node, or what is computed whatever is taken. A node is always needed in some places: in a
branch, that is, once the branch is taken. Nodes are looked at from what needs others to what they need, which was built
before; so when it is a node's turn, all its places are known. One place is where it belongs. Nodes of the same several
places are shared: they are computed together when one of these is taken first, since all of them are needed then. What
both branches of a node need is needed wherever that node is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, final

from .._graph.node import Node
from .._graph.op import ASSIGN, COND
from .._graph.variable import branch_of


@final
class Place(NamedTuple):
    """A branch of a node of "cond"; or what is computed whatever is taken, without a node."""

    of: Node | None
    side: int


Places = frozenset[Place]

ALWAYS: Final = Place(None, 0)
_EVERYWHERE: Final[Places] = frozenset((ALWAYS,))
_NOWHERE: Final[Places] = frozenset()


@final
@dataclass(slots=True, eq=False)
class Group:
    """Nodes that are shared by several places.

    Fields:
        members: they, last built first.
        lent: those of them that others need.
    """

    members: list[Node] = field(default_factory=list[Node])
    lent: list[Node] = field(default_factory=list[Node])


@final
class Sweep:
    """Nodes, sorted by where they belong.

    Fields:
        members: the nodes of each place, last built first.
        groups: for each place, what is shared by several inside of it.
        _needs: what is computed before a node, whatever is taken.
        _results: what the branches of a node give.
        _asked: for each node that is needed, where others are that need it.
        _askers: these others.
        _places: where it is always needed itself, once it has been its turn.
        _unions: what several places are together.
        _depths: how many places each is in.
    """

    def __init__(
        self, needs: Callable[[Node], Iterable[Node]], results: Callable[[Node], Sequence[Iterable[Node]]]
    ) -> None:
        self.members: Final[dict[Place, list[Node]]] = {}
        self.groups: Final[dict[Place, list[Group]]] = {}
        self._needs: Final = needs
        self._results: Final = results
        self._asked: Final[dict[Node, set[Places]]] = {}
        self._askers: Final[dict[Node, list[Node]]] = {}
        self._places: Final[dict[Node, Places]] = {}
        self._unions: Final[dict[frozenset[Places], Places]] = {}
        self._depths: Final[dict[Place, int]] = {ALWAYS: 0}

    def sort(self, wanted: Iterable[Node], nodes: Iterable[Node]) -> None:
        """Sorts `nodes`, which stand last built first, as far as `wanted` need them, whatever is taken. Once."""
        for one in wanted:
            self._asked[one] = {_EVERYWHERE}
        shared: list[Node] = []
        for node in nodes:
            asked = self._asked.get(node)
            if asked is None:
                continue
            is_run_s = node.op is ASSIGN and not branch_of(node)  # A run assigns it or not, whatever is taken.
            places = self._places[node] = _EVERYWHERE if is_run_s else self._union(frozenset(asked))
            if len(places) == 1:
                self.members.setdefault(next(iter(places)), []).append(node)
            else:
                shared.append(node)
            self._ask(node, self._needs(node), places)
            if node.op is COND:
                for side, results in enumerate(self._results(node)):
                    self._ask(node, results, frozenset((Place(node, side),)))
        if shared:
            self._group(shared)

    def _ask(self, node: Node, nodes: Iterable[Node], places: Places) -> None:
        for one in nodes:
            self._asked.setdefault(one, set()).add(places)
            self._askers.setdefault(one, []).append(node)

    # -- places ----------------------------------------------------------------------------------------

    def _union(self, several: frozenset[Places]) -> Places:
        union = self._unions.get(several)
        if union is None:
            union = next(iter(several)) if len(several) == 1 else self._reduced(_NOWHERE.union(*several))
            self._unions[several] = union
        return union

    def _reduced(self, places: Places) -> Places:
        """The same places, none of them inside others, nor two that are all branches of a node."""
        while ALWAYS not in places:
            last = max([_index(one) for one in places])
            places -= {one for one in places if self._is_inside(one, places, last)}
            pairs = {one for one in places if Place(one.of, 1 - one.side) in places}
            if not pairs:
                return places
            places = (places - pairs).union(*[self._around(one) for one in pairs])
        return _EVERYWHERE

    def _around(self, place: Place) -> Places:
        """Where the node of a branch is needed."""
        assert place.of is not None
        return self._places[place.of]

    def _is_inside(self, place: Place, places: Places, last: int) -> bool:
        """Whether one of `places`, but itself, is taken whenever a place is; `last` is the greatest index of theirs."""
        seen: set[Place] = set()
        todo = [place]
        while todo:
            one = todo.pop()
            if one.of is None or one.of.index >= last:
                return False  # What it is in was built later.
            around = [each for each in self._around(one) if each not in places and each not in seen]
            seen.update(around)
            todo += around
        return True

    def _common(self, places: Places) -> Place:
        """The innermost place that all of `places` are in."""
        first, *others = places
        for one in others:
            while not _are_same(first, one):
                if self._depth(first) >= self._depth(one):
                    first = self._outer(first)
                else:
                    one = self._outer(one)
        return first

    def _outer(self, place: Place) -> Place:
        around = self._around(place)
        return next(iter(around)) if len(around) == 1 else self._common(around)

    def _depth(self, place: Place) -> int:
        depth = self._depths.get(place)
        if depth is None:
            depth = self._depths[place] = self._depth(self._outer(place)) + 1
        return depth

    # -- what is shared --------------------------------------------------------------------------------

    def _group(self, shared: Sequence[Node]) -> None:
        """Groups nodes of the same places: as many together as do not have to wait for others in turn."""
        groups: dict[tuple[Places, int], Group] = {}
        ranks = self._ranks(frozenset(shared))
        group_of: dict[Node, Group] = {}
        for node in shared:
            places = self._places[node]
            group = groups.get((places, ranks.get(node, 0)))
            if group is None:
                group = groups[places, ranks.get(node, 0)] = Group()
                self.groups.setdefault(self._common(places), []).append(group)
            group.members.append(node)
            group_of[node] = group
        for node, group in group_of.items():
            if any(self._group_around(one, group_of) is not group for one in self._askers[node]):
                group.lent.append(node)

    def _group_around(self, node: Node, group_of: dict[Node, Group]) -> Group | None:
        """The group that a node is in, or that the node is in whose branch it is in, and so on."""
        while node not in group_of:
            (place,) = self._places[node]
            if place.of is None:
                return None
            node = place.of
        return group_of[node]

    def _ranks(self, shared: frozenset[Node]) -> dict[Node, int]:
        """For each node how often, on the way to it from what it needs, one group waits for another.

        A group that waited for another which waits for it could never be computed.
        """
        ranks: dict[Node, int] = {}
        for node in sorted(self._askers, key=lambda one: one.index):
            rank = ranks.get(node, 0)
            for asker in self._askers[node]:
                waits = node in shared and self._sharing(asker) != self._places[node]
                ranks[asker] = max(ranks.get(asker, 0), rank + waits)
        return ranks

    def _sharing(self, node: Node) -> Places:
        """The places of a node, if they are several; or of the node in whose branch it is, and so on."""
        places = self._places[node]
        while len(places) == 1 and ALWAYS not in places:
            (place,) = places
            places = self._around(place)
        return places


def _are_same(one: Place, other: Place) -> bool:
    return one.of is other.of and one.side == other.side  # Nodes are not compared.


def _index(place: Place) -> int:
    return -1 if place.of is None else place.of.index
