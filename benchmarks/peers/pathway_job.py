"""Pathway: the job as a stateful reducer, in one process.

python benchmarks/peers/pathway_job.py SOURCE SINK COMMIT_MS
"""

import sys
from typing import Any

import pathway as pw
from text import change, collect_less, connect, words


class Line(pw.Schema):
    line: str


class Lines(pw.io.python.ConnectorSubject):
    """The producer's."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address

    def run(self) -> None:
        connection = connect(self._address)
        connection.sendall(b"0\n")
        file = connection.makefile("rb")
        for line in file:
            self.next(line=line.decode().rstrip("\n"))


class Postings:
    """A word's: the list, which all versions share, and what the last batch added to it."""

    __slots__ = ("added", "postings")

    def __init__(self, postings: list[Any], added: bytes) -> None:
        self.postings, self.added = postings, added


def combine(state: Any, rows: Any) -> Any:
    """Called once a batch and word."""
    postings = state.value.postings if state is not None else []
    added = []
    for (word, document, positions), _ in sorted(rows):
        postings.append((document, positions))
        added.append(change(word, document, len(postings), positions))
    return pw.wrap_py_object(Postings(postings, b"".join(added)))


def main() -> None:
    collect_less()
    source, sink, commit = sys.argv[1:]
    lines = pw.io.python.read(Lines(source), schema=Line, autocommit_duration_ms=int(commit))
    found = lines.select(
        posting=pw.apply_with_type(words, list[tuple[str, int, tuple[int, ...]]], pw.this.line)
    ).flatten(pw.this.posting)
    postings = found.select(
        word=pw.this.posting[0], document=pw.this.posting[1], positions=pw.this.posting[2]
    )
    reducer = pw.reducers.stateful_many(combine)
    index = postings.groupby(pw.this.word).reduce(
        state=reducer(pw.this.word, pw.this.document, pw.this.positions)
    )
    connection = connect(sink)
    out: list[bytes] = []

    def changed(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            out.append(row["state"].value.added)

    def batch_ended(time: int) -> None:
        connection.sendall(b"".join(out))
        out.clear()

    pw.io.subscribe(index, on_change=changed, on_time_end=batch_ended)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    main()
