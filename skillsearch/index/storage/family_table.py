"""Which documents stand for which: the families of a corpus as arrays."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

import numpy as np

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.index.storage.numbering import NOTHING, Mask, Numbers, find_sorted, union


@dataclass(frozen=True)
class FamilyTable:
    """Near-copies, the `members`, ascending, and their `leaders`, which stand for them.

    Leaders count for their members in all statistics. The `peers` are of their leader's root and
    not shadowed, so a search may put them before it.
    """

    members: Numbers = field(default_factory=lambda: NOTHING)
    leaders: Numbers = field(default_factory=lambda: NOTHING)
    peers: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))

    def __len__(self) -> int:
        return len(self.members)

    def is_consistent(self, size: int) -> bool:
        """Return whether all numbers are within a corpus of `size` documents."""
        numbers = np.concatenate([self.members, self.leaders])
        are_inside = bool(((numbers >= 0) & (numbers < size)).all())
        return are_inside and len(self.members) == len(self.leaders) == len(self.peers)

    def leaders_of(self, numbers: Numbers) -> Numbers:
        """Return the leader of each document: itself if it is in no other's family."""
        places = find_sorted(self.members, numbers)
        return np.where(places >= 0, np.append(self.leaders, 0)[places], numbers)

    def leader_of(self, number: int) -> int:
        """Return the leader of a document."""
        return int(self.leaders_of(np.array([number]))[0])

    def waiting(self, left_out: Numbers) -> Numbers:
        """Return the members whose leader is not left out, so that it is shown for them."""
        return self.members[find_sorted(left_out, self.leaders) < 0]

    def are_leading(self, numbers: Numbers) -> Mask:
        """Return for each document whether it stands for others."""
        leaders = self._by_leader[0]
        return leaders.searchsorted(numbers) < leaders.searchsorted(numbers, "right")

    def followers(self, leader: int) -> tuple[Numbers, Mask]:
        """Return the documents that one stands for, ascending, and which of them are its peers."""
        leaders, order = self._by_leader
        places = order[slice(*leaders.searchsorted((leader, leader + 1)).tolist())]
        return self.members[places], self.peers[places]

    def relatives(self, number: int) -> Numbers:
        """Return the other documents of a document's family, ascending."""
        leader = self.leader_of(number)
        family = union(np.array([leader]), self.followers(leader)[0])
        are_others: Mask = family != number
        return family[are_others]

    @cached_property
    def _by_leader(self) -> tuple[Numbers, Numbers]:
        """The leaders of the members, sorted, and the place of each."""
        order = np.argsort(self.leaders, kind="stable")
        return self.leaders[order], order
