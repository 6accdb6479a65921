"""A graph as a picture for notebooks: SVG, in the colours of the text around it.

Vertices stand in columns, each behind all that lead to it; an edge that goes back, around a loop, is dashed. `figures`
are words below a vertex, by its place in the graph.

Keeps: whatever a user has named is text, never markup; a picture needs no script, no style and no request. Does not:
decide what a vertex is called (drawing.py), or move anything to where fewer edges cross than by the mean of what is
before it.
"""

from collections.abc import Mapping
from html import escape
from typing import Final

from flamestream.job.plan.drawing import keeps, label
from flamestream.model.graph import Graph
from flamestream.model.vertex import Kind

WIDE, HIGH = 220, 52
"""The place of a vertex with what is around it, in pixels."""
BOX_WIDE, BOX_HIGH = 180, 38
MOST_LETTERS: Final = 28
_ARROW: Final = (
    '<marker id="fs-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="currentColor"/></marker>'
)


def svg(graph: Graph, figures: Mapping[int, str] | None = None) -> str:
    """The picture of a graph."""
    places = _places(graph)
    width = max((x for x, _ in places), default=0) + WIDE
    height = max((y for _, y in places), default=0) + HIGH
    edges = [
        _edge(places[vertex.id], places[output]) for vertex in graph.vertices for output in vertex.outputs
    ]
    boxes = [
        _box(graph, number, place, (figures or {}).get(number, "")) for number, place in enumerate(places)
    ]
    size = f'viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{escape(graph.name)}"'
    looks = 'font-family="sans-serif" font-size="12" fill="none" stroke="currentColor"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {looks}>'
    return f"{head}<defs>{_ARROW}</defs>{''.join(edges)}{''.join(boxes)}</svg>"


def _columns(graph: Graph) -> list[int]:
    """The column of each vertex: behind all that lead to it, edges out of loops apart."""
    before: list[list[int]] = [[] for _ in graph.vertices]
    left = [0] * len(graph.vertices)
    ahead = [[] if vertex.kind is Kind.LOOP else vertex.outputs for vertex in graph.vertices]
    for number, outputs in enumerate(ahead):
        for output in outputs:
            before[output].append(number)
            left[output] += 1
    columns = [0] * len(graph.vertices)
    ready = [number for number, count in enumerate(left) if not count]
    while ready:
        number = ready.pop()
        columns[number] = max((columns[each] + 1 for each in before[number]), default=0)
        for output in ahead[number]:
            left[output] -= 1
            if not left[output]:
                ready.append(output)
    return columns


def _places(graph: Graph) -> list[tuple[int, int]]:
    """The upper left corner of each vertex's place."""
    columns = _columns(graph)
    heights: dict[int, float] = {}
    rows: dict[int, int] = {}
    for column in range(max(columns, default=-1) + 1):
        here = [number for number, its in enumerate(columns) if its == column]
        for number in here:
            before = [
                heights[vertex.id]
                for vertex in graph.vertices
                if number in vertex.outputs and vertex.id in heights
            ]
            heights[number] = sum(before) / len(before) if before else float(len(rows))
        for row, number in enumerate(sorted(here, key=lambda number: (heights[number], number))):
            rows[number], heights[number] = row, float(row)
    return [(columns[number] * WIDE, rows[number] * HIGH) for number in range(len(columns))]


def _box(graph: Graph, number: int, place: tuple[int, int], below: str) -> str:
    vertex, (x, y) = graph.vertices[number], place
    words, middle = label(vertex), x + BOX_WIDE // 2
    text = words if len(words) <= MOST_LETTERS else f"{words[: MOST_LETTERS - 1]}…"
    round_ = BOX_HIGH // 2 if vertex.kind in (Kind.SOURCE, Kind.SINK) else 4
    kept = keeps(vertex)
    title = f"{words}, keeps {kept}" if kept else words
    lines = [(text, 23)] if not below else [(text, 17), (below, 32)]
    texts = "".join(
        f'<text x="{middle}" y="{y + at}" text-anchor="middle" fill="currentColor" stroke="none">{escape(each)}</text>'
        for each, at in lines
    )
    thick = 1.8 if kept else 1
    return (
        f'<g><title>{escape(title)}</title><rect x="{x + 1}" y="{y + 1}" width="{BOX_WIDE - 2}" height="{BOX_HIGH}" '
        f'rx="{round_}" stroke-width="{thick}"/>{texts}</g>'
    )


def _edge(start: tuple[int, int], end: tuple[int, int]) -> str:
    x, y = start[0] + BOX_WIDE, start[1] + 1 + BOX_HIGH // 2
    to_x, to_y = end[0], end[1] + 1 + BOX_HIGH // 2
    back = to_x <= start[0]
    if back or to_x > x + WIDE - BOX_WIDE:  # past other columns: between the rows, where no box is
        gap = y + HIGH // 2
        way = f"C{x + 20} {y},{x + 20} {gap},{x + (0 if back else 40)} {gap}H{to_x + (0 if back else -40)}"
        path = f"M{x} {y}{way}C{to_x - 20} {gap},{to_x - 20} {to_y},{to_x} {to_y}"
    else:
        half = (x + to_x) // 2
        path = f"M{x} {y}C{half} {y},{half} {to_y},{to_x} {to_y}"
    dashes = ' stroke-dasharray="4 3"' if back else ""
    return f'<path d="{path}" marker-end="url(#fs-arrow)"{dashes}/>'
