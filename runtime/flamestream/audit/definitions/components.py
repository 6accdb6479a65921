"""Components: what belongs together, from pairs that do.

>>> components = Components()
>>> components.join(["a", "b"])
'a'
>>> components.join(["c", "b"]) == components.of("a")
True
>>> components.of("d")
'd'

Keeps: nearly constant time for each (paths are halved, the smaller tree goes below the greater).
"""

from collections.abc import Hashable, Iterable


class Components:
    """Disjoint sets of whatever was ever joined."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}
        self._sizes: dict[Hashable, int] = {}

    def __contains__(self, node: Hashable) -> bool:
        return node in self._above

    def of(self, node: Hashable) -> Hashable:
        """The one that stands for all of a node's component."""
        above = self._above
        while (parent := above.get(node, node)) != node:
            above[node] = node = above[parent]
        return node

    def join(self, nodes: Iterable[Hashable]) -> Hashable:
        """Put these in one component. Who stands for it; there has to be a node."""
        first, *others = nodes
        self._above.setdefault(first, first)
        root = self.of(first)
        for node in others:
            self._above.setdefault(node, node)
            if (other := self.of(node)) != root:
                root = self._below(root, other)
        return root

    def _below(self, one: Hashable, other: Hashable) -> Hashable:
        sizes = self._sizes
        less, more = sorted((one, other), key=lambda root: sizes.get(root, 1))
        if sizes.get(one, 1) == sizes.get(other, 1):
            less, more = other, one
        self._above[less] = more
        sizes[more] = sizes.get(more, 1) + sizes.pop(less, 1)
        return more
