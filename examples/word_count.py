"""Word count from the elementary operations: a grouping of two items and a cycle, as the EDBT 2018 paper
draws it (Fig. 5).

`reduce` would do the same in one line. Here the running total of a word is itself an item: it goes round the
cycle and waits in the word's group for the next occurrence. In global order a group reads: Word, Total, Word,
Total, ...
"""

from dataclasses import dataclass

import flamestream as fs


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Word:
    """One occurrence."""

    word: str


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Total:
    """How often the word has occurred so far."""

    word: str
    count: int


def occurrences(line: str) -> list[Word]:
    return [Word(word) for word in line.lower().split()]


def counted(window: tuple[Word | Total, ...]) -> list[Total]:
    """(Total, Word) and a first (Word,) give the next total. (Word, Total) is an old total; (Word, Word) is
    still to be corrected."""
    newest = window[-1]
    before = window[-2] if len(window) == 2 else Total(newest.word, 0)
    if isinstance(newest, Word) and isinstance(before, Total):
        return [Total(newest.word, before.count + 1)]
    return []


def word_of(item: Word | Total) -> str:
    return item.word


graph = fs.Graph("word-count")
totals_so_far = graph.loop("totals", max_iterations=1)
windows = graph.source("lines").flat_map(occurrences).merge(totals_so_far).group(2, key=word_of)
totals = windows.flat_map(counted)
totals_so_far.close(totals)
totals.sink("counts", key=word_of)
