"""The job of autoscaling/figure.py: each word of a document takes a while in which nothing is computed, so that
several workers help on a few cores. Lines and results are those of workload.py."""

import time

from workload import Change, Posting, word_of, words

import flamestream as fs

PAUSE = 0.004
"""Seconds."""


def counted(count: int, posting: Posting) -> int:
    time.sleep(PAUSE)
    return count + 1


def change(count: int, posting: Posting) -> Change:
    return Change(posting.word, posting.document, posting.positions, count)


graph = fs.Graph("slow-words")
graph.source("docs").flat_map(words).reduce(
    name="counts", key=word_of, initial=int, combine=counted, emit=change
).sink("index", key=word_of)
