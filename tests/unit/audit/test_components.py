"""Components are the sets that come of joining, whatever is joined in which order."""

from hypothesis import given
from hypothesis import strategies as st

from flamestream.audit.definitions.components import Components

NODES = st.lists(st.integers(0, 9), min_size=1, max_size=4)


@given(st.lists(NODES, max_size=8))
def test_two_are_together_if_something_joined_them(joins: list[list[int]]) -> None:
    components = Components()
    sets = [{node} for node in range(10)]
    for nodes in joins:
        root = components.join(nodes)
        touched = [one for one in sets if one & set(nodes)]
        sets = [one for one in sets if one not in touched] + [set().union(*touched)]
        assert {components.of(node) for node in nodes} == {root}
    for one in range(10):
        together = {other for other in range(10) if components.of(other) == components.of(one)}
        assert together in sets
