"""The picture of a graph is XML with every vertex and every edge, whatever a user calls them."""

from xml.etree import ElementTree

import pytest

import flamestream as fs
from flamestream.job.plan.picture import BOX_HIGH, BOX_WIDE, svg

NAME = "{http://www.w3.org/2000/svg}"


def drawn(graph: fs.Graph, **figures: str) -> ElementTree.Element:
    """Parsed, as a browser would."""
    return ElementTree.fromstring(svg(graph, {int(place[1:]): text for place, text in figures.items()}))


def boxes(picture: ElementTree.Element) -> list[tuple[int, int]]:
    """The upper left corners."""
    return [(int(each.attrib["x"]), int(each.attrib["y"])) for each in picture.iter(f"{NAME}rect")]


def forked() -> fs.Graph:
    graph = fs.Graph("forked")
    one, other, third = graph.source("numbers").broadcast(3)
    one.map(abs).merge(other).reduce(key=abs, combine=fs.count()).sink("out", key=abs)
    third.filter(bool).sink("some", key=abs)
    return graph


def looped() -> fs.Graph:
    graph = fs.Graph("looped")
    loop = graph.loop("again", 3)
    stream = graph.source("numbers").merge(loop)
    loop.close(stream.filter(lambda n: n > 0).map(lambda n: n - 1))
    stream.sink("out", key=abs)
    return graph


@pytest.mark.parametrize("graph", [forked(), looped()], ids=lambda graph: graph.name)
def test_each_vertex_is_a_box_and_each_edge_a_line_and_no_two_boxes_meet(graph: fs.Graph) -> None:
    picture = drawn(graph)
    places = boxes(picture)
    assert len(places) == len(graph.vertices)
    lines = [each for each in picture.iter(f"{NAME}path") if "marker-end" in each.attrib]
    assert len(lines) == sum(len(vertex.outputs) for vertex in graph.vertices)
    for at, (x, y) in enumerate(places):
        for other_x, other_y in places[at + 1 :]:
            assert abs(x - other_x) >= BOX_WIDE or abs(y - other_y) >= BOX_HIGH


def test_a_vertex_stands_behind_all_that_lead_to_it() -> None:
    graph = forked()
    places = boxes(drawn(graph))
    for vertex in graph.vertices:
        for output in vertex.outputs:
            assert places[vertex.id][0] < places[output][0]


def test_what_goes_round_is_dashed() -> None:
    dashed = [each for each in drawn(looped()).iter(f"{NAME}path") if "stroke-dasharray" in each.attrib]
    assert len(dashed) == 1


def test_names_and_figures_are_text() -> None:
    graph = fs.Graph('<b>"')
    graph.source("<script>alert(1)</script>").sink("a & b", key=abs)
    picture = drawn(graph, v0="5 /s & more")
    assert picture.attrib["aria-label"] == '<b>"'
    texts = [each.text for each in picture.iter(f"{NAME}text")]
    assert texts == ["<script>alert(1)</script>", "5 /s & more", "a & b"]
    assert list(picture.iter(f"{NAME}script")) == []


def test_a_graph_shows_itself_in_a_notebook() -> None:
    assert forked()._repr_html_() == svg(forked())
