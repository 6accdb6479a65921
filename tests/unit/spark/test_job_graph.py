"""The graph of a task is the one that the manifest speaks of."""

from pathlib import Path

from flamestream.spark.frames.job_graph import FromFile

GRAPH = """
import flamestream as fs

graph = fs.Graph("times")
for name in ("whole", "growing"):
    graph.source(name, at=len, unit="s").window(fs.tumbling("1s"), key=len).count().sink(name)
"""


def test_it_takes_whole_files_for_one_partition(tmp_path: Path) -> None:
    file = tmp_path / "graph_of_times.py"
    file.write_text(GRAPH)
    graph = FromFile(str(file), "graph", in_sequence=("whole",)).get()
    assert {source.name: source.timing.in_sequence for source in graph.sources if source.timing} == {
        "whole": True,
        "growing": False,
    }
