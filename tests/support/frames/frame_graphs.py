"""Graphs for DataFrame jobs, with their input: the examples, and drawn ones."""

from pathlib import Path
from random import Random
from typing import Any

import flamestream as fs
from flamestream.job.application import load
from flamestream.model.graph import Graph
from flamestream.model.records import Document
from flamestream.model.time import FrontId, Time, Timestamp, time_of
from flamestream.simulation import graphs
from support.docs.examples import example_file


def at(timestamp: int, front: int = 0) -> Time:
    return time_of(Timestamp(timestamp), FrontId(front))


def lines_of(name: str) -> list[str]:
    return example_file(name).read_text().splitlines()


def runs_of(example: str) -> list[tuple[Time, list[Any]]]:
    if example in ("inverted_index", "kafka_search"):
        files = sorted(Path(__file__).parents[3].glob("docs/reference/*.md"))
        found = [(file.name, file.read_text()) for file in files]
        made = [
            Document(*each) if example == "inverted_index" else fs.Map({"name": each[0], "text": each[1]})
            for each in found
        ]
        return [(at(number, 0), [record]) for number, record in enumerate(made, 1)]
    if example == "two_front_merge":
        inputs = [(front, lines_of(f"{name}.txt")) for front, name in enumerate(("prices", "orders"))]
        return sorted(
            (at(number, front), [line]) for front, lines in inputs for number, line in enumerate(lines, 1)
        )
    sources = load(example_file(f"{example}.py"), "graph").sources
    if all(source.timing is not None for source in sources) and example != "minute_counts":
        entering = [(front, lines_of(f"{source.name}.jsonl")) for front, source in enumerate(sources)]
        return sorted(
            (at(number, front), [line]) for front, lines in entering for number, line in enumerate(lines, 1)
        )
    data = {"concatenation": "letters", "minute_counts": "events", "turnover": "sales"}
    lines = lines_of(f"{data.get(example, 'lines')}.txt")
    return [(at(number + 1), lines[number : number + 3]) for number in range(0, len(lines), 3)]


def drawn(seed: int, records: int = 40) -> tuple[Graph, list[tuple[Time, list[Any]]]]:
    rng = Random(seed)
    job = graphs.drawn_job(rng)
    runs: list[tuple[Time, list[Any]]] = []
    timestamp = 0
    while records > 0:
        timestamp += rng.choice([0, 1, 50])
        front = rng.randrange(job.sources)
        count = rng.randint(1, 5)
        time = at(timestamp, front)
        if not any(time == other for other, _ in runs):
            runs.append((time, [job.record(rng, records - i) for i in range(count)]))
            records -= count
    return job.graph, sorted(runs, key=lambda run: run[0])
