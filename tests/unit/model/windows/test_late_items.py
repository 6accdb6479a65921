"""Nothing is lost in silence: whatever comes too late, an item is in a result or among the late ones."""

from random import Random
from typing import Any

import pytest

import flamestream as fs
from support.compositions import key_by
from support.event_time import results
from support.seeds import chunks

SEEDS = chunks(0, 1000, 100, at_push=200)


@fs.event
class Numbered:
    id: int
    number: int
    at: int


def timed(rng: Random, *, sources: int) -> tuple[fs.Graph, list[Any]]:
    graph = fs.Graph("late", step=rng.choice(["500ms", "1s", "3s"]), shards=rng.choice([1, 3, 8]))
    late = rng.choice(["0s", "2s", "5s"])
    return graph, [
        graph.source(f"s{number}", Numbered, at="at", unit="s", late=late) for number in range(sources)
    ]


def records(rng: Random, *, sources: int) -> list[tuple[str, Numbered]]:
    """Some are far behind what their source has told."""
    newest, found = [0] * sources, list[tuple[str, Numbered]]()
    for number in range(rng.randrange(5, 60)):
        source = rng.randrange(sources)
        newest[source] += rng.choice([0, 1, 1, 2, 7])
        at = newest[source] - rng.choice([0, 0, 0, 1, 2, 4, 20])
        found.append((f"s{source}", Numbered(number, rng.randrange(6), at)))
    return found


@pytest.mark.parametrize("first", SEEDS)
def test_each_item_is_in_a_window_or_late(first: int) -> None:
    for seed in range(first, first + 100):
        rng = Random(seed)
        graph, (left, right) = timed(rng, sources=2)
        stream, key = left.merge(right), key_by(3)
        for level in range(3):
            size = f"{rng.choice([1, 3, 12])}s"
            shape = fs.session(size) if rng.random() < 0.5 else fs.tumbling(size)
            counts = stream.window(shape, key=key).count()
            counts.sink(f"windows{level}")
            counts.late.sink(f"late{level}")
            stream = counts
        entered = records(rng, sources=2)
        found, came = results(graph, entered), len(entered)
        for level in range(3):
            windows, late = found[f"windows{level}"], found[f"late{level}"]
            assert sum(window.value for window in windows) + len(late) == came, (seed, level)
            assert not (level and late), (seed, "a window came too late for another")
            came = len(windows)


@pytest.mark.parametrize("first", SEEDS)
def test_items_that_are_in_time_meet_all_that_they_should(first: int) -> None:
    for seed in range(first, first + 100):
        rng = Random(seed)
        graph, (left, right) = timed(rng, sources=2)
        low, length = rng.choice([-6, -2, 0, 1]), rng.choice([0, 1, 5])
        within = f"{low}s", f"{low + length}s"
        pairs = left.join(right, on="number", within=within, how="full")
        pairs.sink("pairs")
        pairs.late.sink("late")
        entered = records(rng, sources=2)
        found = results(graph, entered)
        late = {item.id for item in found["late"]}
        lefts, rights = (
            [item for name, item in entered if name == source and item.id not in late]
            for source in ("s0", "s1")
        )
        met = {
            (one.id, other.id)
            for one in lefts
            for other in rights
            if one.number == other.number and low <= other.at - one.at <= low + length
        }
        of_left, of_right = {pair[0] for pair in met}, {pair[1] for pair in met}
        alone: list[Any] = [(one.id, None) for one in lefts if one.id not in of_left]
        alone += [(None, other.id) for other in rights if other.id not in of_right]
        ids = [tuple(item and item.id for item in pair) for pair in found["pairs"]]
        assert sorted(ids, key=repr) == sorted([*met, *alone], key=repr), seed
