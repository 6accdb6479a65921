"""The loop over columns does what the plain loop does, however its input is cut into batches."""

import sys
from pathlib import Path

import pytest
from harness.corpus import documents

sys.path.append(str(Path(__file__).parents[3] / "benchmarks" / "peers"))
pytest.importorskip("numpy")

import columns
import plain

LINES = [line.encode() + b"\n" for line in documents(120)]


@pytest.mark.parametrize("size", [1, 7, len(LINES)])
def test_its_output_is_the_plain_loops_byte_for_byte(size: int) -> None:
    index = columns.Index()
    assert b"".join(bytes(index.take(b"".join(batch))) for batch in _batches(size)) == b"".join(
        plain.index(LINES)
    )


@pytest.mark.parametrize("size", [1, 7, len(LINES)])
def test_it_keeps_the_posting_list_of_every_word(size: int) -> None:
    index = columns.Index()
    expected: dict[str, dict[int, list[int]]] = {}
    for batch in _batches(size):
        index.take(b"".join(batch))
    for line in LINES:
        number, _, text = line.decode().partition("\t")
        for place, word in enumerate(text.split()):
            expected.setdefault(word, {}).setdefault(int(number), []).append(place)
    for word, documents_of in expected.items():
        assert index.postings(word) == [(number, tuple(places)) for number, places in documents_of.items()]


def test_a_word_that_never_came_has_no_postings() -> None:
    index = columns.Index()
    index.take(LINES[0])
    assert index.postings("NEVER") == []


def _batches(size: int) -> list[list[bytes]]:
    return [LINES[at : at + size] for at in range(0, len(LINES), size)]
