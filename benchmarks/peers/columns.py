"""The second floor: the job over columns, as numpy and pyarrow do it, in one thread. No guarantee, no second
worker, nothing kept.

python benchmarks/peers/columns.py SOURCE SINK

A batch is what the socket holds: one document at a low rate, some dozens at full rate. Words become numbers
once, by one dictionary; the rest is arrays. Posting lists are columns too: the postings of all words in the
order of their coming, each with the place of the one before it of the same word. So a word's list is a walk
from its newest posting, and appending a batch needs no loop over words.

Keeps: the bytes of plain.py's output, in its order (a test compares them).
"""

import gc
import sys
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from text import connect

PIECE = 1 << 18
NONE_BEFORE = -1


class Column:
    """An array that grows."""

    def __init__(self) -> None:
        self.length = 0
        self._room = np.empty(1 << 16, np.int32)

    def append(self, values: "np.ndarray[Any, Any]") -> None:
        """In amortised constant time a value."""
        end = self.length + len(values)
        if end > len(self._room):
            self._room = np.concatenate(
                [self._room[: self.length], np.empty(max(end, len(self._room)), np.int32)]
            )
        self._room[self.length : end] = values
        self.length = end

    @property
    def values(self) -> "np.ndarray[Any, Any]":
        """All of them, not to be kept."""
        return self._room[: self.length]


class Index:
    """Posting lists of all words, as columns."""

    def __init__(self) -> None:
        self._numbers: defaultdict[str, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__
        self._lengths = np.zeros(1 << 10, np.int64)
        self._newest = np.full(1 << 10, NONE_BEFORE, np.int32)
        self._document, self._before, self._end, self._position = Column(), Column(), Column(), Column()

    def take(self, lines: bytes) -> "pa.Buffer":
        """Whole lines, their newlines with them; the changes that they make."""
        document, text = _parsed(lines)
        split = pc.split_pattern(text, " ")
        starts = split.offsets.to_numpy()
        owner = np.repeat(np.arange(len(document)), np.diff(starts))
        encoded = split.flatten().dictionary_encode()
        local = encoded.indices.to_numpy()
        place = np.arange(len(local)) - starts[owner]
        # Postings: occurrences of one word in one document, in the order of their first.
        order = np.argsort(owner * len(encoded.dictionary) + local, kind="stable")
        key = (owner * len(encoded.dictionary) + local)[order]
        begins = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
        sizes = np.diff(np.append(begins, len(key)))
        shown = np.argsort(order[begins], kind="stable")
        positions = place[order][_ranges(begins[shown], sizes[shown])]
        first = order[begins][shown]
        ends = np.cumsum(sizes[shown])
        names = encoded.dictionary.take(pa.array(local[first]))
        counts = self._append(
            self._known(encoded.dictionary)[local[first]], document[owner[first]], positions, ends
        )
        return _written(names, document[owner[first]], counts, positions, ends)

    def postings(self, word: str) -> list[tuple[int, tuple[int, ...]]]:
        """Of one word, in order."""
        found, at = [], self._newest[self._numbers[word]] if word in self._numbers else NONE_BEFORE
        while at != NONE_BEFORE:
            begin = self._end.values[at - 1] if at else 0
            found.append(
                (
                    int(self._document.values[at]),
                    tuple(self._position.values[begin : self._end.values[at]].tolist()),
                )
            )
            at = self._before.values[at]
        return found[::-1]

    def _known(self, words: "pa.StringArray") -> "np.ndarray[Any, Any]":
        """Their numbers; new words get the next ones."""
        numbers = np.fromiter(map(self._numbers.__getitem__, words.to_pylist()), np.int64, len(words))
        while len(self._lengths) < len(self._numbers):
            self._lengths = np.concatenate([self._lengths, np.zeros_like(self._lengths)])
            self._newest = np.concatenate([self._newest, np.full_like(self._newest, NONE_BEFORE)])
        return numbers

    def _append(self, word: Any, document: Any, positions: Any, ends: Any) -> "np.ndarray[Any, Any]":
        """Postings in order of documents; how long the list of each word is with it."""
        at = np.arange(len(word)) + self._document.length
        by_word = np.argsort(word, kind="stable")
        same = np.concatenate([[False], word[by_word][1:] == word[by_word][:-1]])
        begins = np.flatnonzero(~same)
        rank = np.empty(len(word), np.int64)
        rank[by_word] = np.arange(len(word)) - np.repeat(begins, np.diff(np.append(begins, len(word))))
        before = np.empty(len(word), np.int64)
        before[by_word] = np.where(
            same, np.concatenate([[NONE_BEFORE], at[by_word][:-1]]), self._newest[word[by_word]]
        )
        counts: np.ndarray[Any, Any] = self._lengths[word] + rank + 1
        # Of several postings of a word in one batch numpy keeps the last value, which is the newest and the
        # longest.
        self._newest[word] = at
        self._lengths[word] = counts
        self._document.append(document)
        self._before.append(before)
        self._end.append(ends + self._position.length)
        self._position.append(positions)
        return counts


def _parsed(lines: bytes) -> "tuple[np.ndarray[Any, Any], pa.StringArray]":
    """Numbers and texts of documents."""
    each = pc.split_pattern(pc.split_pattern(pa.array([lines[:-1].decode()]), "\n").flatten(), "\t").flatten()
    parts = np.arange(0, len(each), 2)
    return each.take(pa.array(parts)).cast(pa.int64()).to_numpy(), each.take(pa.array(parts + 1))


def _ranges(begins: "np.ndarray[Any, Any]", sizes: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Of each begin, as many numbers as its size.

    >>> _ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(sizes)
    found: np.ndarray[Any, Any] = np.arange(ends[-1]) + np.repeat(begins - ends + sizes, sizes)
    return found


def _written(names: Any, documents: Any, counts: Any, positions: Any, ends: Any) -> "pa.Buffer":
    """Lines for the consumer."""
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    where = pc.binary_join(pa.ListArray.from_arrays(offsets, pa.array(positions).cast(pa.string())), ",")
    numbers = [pa.array(column).cast(pa.string()) for column in (documents, counts)]
    lines = pc.binary_join_element_wise(names, *numbers, pc.binary_join_element_wise(where, "", "\n"), "\t")
    return lines.buffers()[2]


def main() -> None:
    source, sink = connect(sys.argv[1]), connect(sys.argv[2])
    source.sendall(b"0\n")
    # As in plain.py.
    gc.disable()
    index, rest = Index(), b""
    while piece := source.recv(PIECE):
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        if newline:
            sink.sendall(index.take(whole + newline))


if __name__ == "__main__":
    main()
