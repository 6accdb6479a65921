"""The benchmarks' job (workload.py) with vectorised functions and ready-made ones: the same changes, byte for
byte (a test compares)."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from workload import Change, Posting, ready_made_index

import flamestream as fs


@fs.vectorized(takes=str, makes=Posting)
def words(lines: pa.Array) -> pa.Array:
    """For each line a posting for each distinct word, in the order of their first occurrence."""
    parts = pc.split_pattern(lines, "\t", max_splits=1).flatten()
    document = parts.take(pa.array(np.arange(0, len(parts), 2))).cast(pa.int64()).to_numpy()
    split = pc.ascii_split_whitespace(parts.take(pa.array(np.arange(1, len(parts), 2))))
    starts = split.offsets.to_numpy()
    line = np.repeat(np.arange(len(lines)), np.diff(starts))
    encoded = split.flatten().dictionary_encode()
    word = encoded.indices.to_numpy()
    # Occurrences of one word in one line together, in their order.
    code = line * len(encoded.dictionary) + word
    order = np.argsort(code, kind="stable")
    begins = np.flatnonzero(np.diff(code[order], prepend=-1))
    sizes = np.diff(np.append(begins, len(order)))
    shown = np.argsort(order[begins], kind="stable")
    first, sizes, begins = order[begins][shown], sizes[shown], begins[shown]
    ends = np.cumsum(sizes)
    place = np.arange(len(word)) - starts[line]
    positions = place[order][np.arange(len(order)) + np.repeat(begins - ends + sizes, sizes)]
    postings = pa.StructArray.from_arrays(
        [
            encoded.dictionary.take(pa.array(word[first])),
            pa.array(document[line[first]]),
            _lists(ends, pa.array(positions)),
        ],
        ["word", "document", "positions"],
    )
    return _lists(np.cumsum(np.bincount(line[first], minlength=len(lines))), postings)


def _lists(ends: "np.ndarray[tuple[int], np.dtype[np.int64]]", values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]), pa.int32()), values)


graph = fs.Graph("inverted-index")
ready_made_index(graph.source("docs").flat_map(words))


@fs.vectorized(takes=Posting, makes=Posting)
def lower(postings: pa.Array) -> pa.Array:
    fields = [pc.utf8_lower(postings.field("word")), postings.field("document"), postings.field("positions")]
    return pa.StructArray.from_arrays(fields, ["word", "document", "positions"])


@fs.vectorized(takes=Posting, makes=bool)
def not_empty(postings: pa.Array) -> pa.Array:
    return pc.not_equal(postings.field("word"), "")


@fs.vectorized(takes=Change, makes=Change)
def upper_and_lower(changes: pa.Array) -> pa.Array:
    names = ["word", "document", "positions", "documents"]
    return pa.StructArray.from_arrays(
        [pc.utf8_lower(pc.utf8_upper(changes.field("word"))), *map(changes.field, names[1:])], names
    )


chained = fs.Graph("inverted-index")
"""Three functions in a row; those behind the first leave everything as it is here."""
ready_made_index(chained.source("docs").flat_map(words).map(lower).filter(not_empty))

behind = fs.Graph("inverted-index")
"""One behind the fold too."""
ready_made_index(behind.source("docs").flat_map(words), lambda changes: changes.map(upper_and_lower))
