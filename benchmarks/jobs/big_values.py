"""The job of big_state.py: a key's state is a value of `BENCH_VALUE` bytes that does not compress, made anew
by each document that names the key. Lines and results are those of workload.py."""

import hashlib
import os

from workload import Change, Posting, word_of, words

import flamestream as fs

VALUE = int(os.environ.get("BENCH_VALUE", "1000"))


def replaced(old: bytes, posting: Posting) -> bytes:
    """The count of documents, then bytes that only this document gives."""
    count = int.from_bytes(old[:8], "big") + 1
    return count.to_bytes(8, "big") + hashlib.shake_128(f"{posting.word}/{posting.document}".encode()).digest(
        VALUE - 8
    )


def change(value: bytes, posting: Posting) -> Change:
    return Change(posting.word, posting.document, posting.positions, int.from_bytes(value[:8], "big"))


graph = fs.Graph("big-values")
graph.source("docs").flat_map(words).reduce(key=word_of, initial=bytes, combine=replaced, emit=change).sink(
    "index", key=word_of
)
