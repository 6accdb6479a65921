"""What `flamestream plan` draws."""

from flamestream.cli.drawing import mermaid
from flamestream.model.graph import Graph


def test_each_edge_is_an_arrow_also_where_two_lead_to_one_vertex() -> None:
    graph = Graph("twice")
    one, other = graph.source("numbers").broadcast(2)
    one.merge(other).sink("out")
    assert mermaid(graph.validated()).count("v0 --> v1") == 2
