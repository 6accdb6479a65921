"""Vectorised functions: user code over Arrow arrays instead of one payload at a time.

    @fs.vectorized(takes=str, makes=Posting)
    def words(lines: pa.Array) -> pa.Array:
        ...    # flat_map: for each line a list of postings; map: one value; filter: true or false

    graph.source("docs").flat_map(words)

What such a function means is what it makes of an array of one: results may not depend on where a batch ends.
So the reference interpreter, micro-batches and workers without the kernel ask it about one payload at a time;
a worker with the kernel, about everything that is at hand (native/src/flow/stages.rs). Its results stay
columns for the next such function, and become rows in their canonical encoding where they come to a door
(native/src/payload/columns.rs).

Keeps: layer `columns` knows payloads (`model`) and Arrow, and nothing of workers.
"""

from flamestream.columns.vectorized import Vectorized, vectorized

__all__ = ["Vectorized", "vectorized"]
