"""Inverted index: documents become words, words become posting lists, every change of a list is a result.

The job of the delivery paper. A posting list grows with each document that has the word, so a lost, doubled
or reordered posting shows in every later change of that word. The list is an `fs.Vector`: an append costs the
same at 10 and at 100,000 postings.
"""

import re
from dataclasses import dataclass

import flamestream as fs

WORD = re.compile(r"[^\W\d]\w+")


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Posting:
    """Where a word is in one document: the numbers of the words, from 0."""

    word: str
    document: str
    positions: tuple[int, ...]


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Change:
    """A posting that was added to its word's list, and the list's length since."""

    word: str
    document: str
    positions: tuple[int, ...]
    documents: int


def words(document: fs.Document) -> list[Posting]:
    """A posting for each distinct word, in the order of first occurrence."""
    positions: dict[str, list[int]] = {}
    for number, word in enumerate(WORD.findall(document.text.lower())):
        positions.setdefault(word, []).append(number)
    return [Posting(word, document.name, tuple(where)) for word, where in positions.items()]


def word_of(item: Posting | Change) -> str:
    return item.word


def appended(postings: "fs.Vector[Posting]", posting: Posting) -> "fs.Vector[Posting]":
    return postings.append(posting)


def change(postings: "fs.Vector[Posting]", posting: Posting) -> Change:
    return Change(posting.word, posting.document, posting.positions, len(postings))


graph = fs.Graph("inverted-index")
postings = graph.source("docs").flat_map(words)
index = postings.reduce(key=word_of, initial=fs.Vector, combine=appended, emit=change)
index.sink("index", key=word_of)
