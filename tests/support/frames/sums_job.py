"""A job that sums numbers by key, as files: one manifest for any guarantee and any runner."""

from pathlib import Path

APPLICATION = """
import flamestream as fs

def key(number): return number % 7
def total(accumulator, number): return accumulator + number
def both(accumulator, number): return number, accumulator

graph = fs.Graph("sums")
graph.source("numbers").reduce(key=key, initial=int, combine=total, emit=both).sink("out")
"""
TABLES = """
import flamestream as fs

graph = fs.Graph("sums")
sums = graph.table("sums", initial=int)
by_digit = sums.index("by_digit", key=lambda total: total % 10)

def add(state, number):
    state[sums, number % 7] += number
    if number % 50 == 0:
        del state[sums, number % 7]
    return number, state[sums, number % 7], tuple(state[by_digit, number % 10])

graph.source("numbers").transact(add).committed.sink("out")
"""
"""The same in a table, whose rows are deleted now and then."""
MANIFEST = """
apiVersion: flamestream.dev/v1alpha1
kind: FlameStreamJob
metadata: {{name: sums}}
spec:
  application: {{file: {file}, graph: graph}}
  sources: {{numbers: {{generator: {generator}}}}}
  sinks: {{out: {{files: {{path: out}}}}}}
  guarantee: {guarantee}
  workers: {{replicas: 2, slots: 16}}
  checkpoint: {{interval: 200ms, store: store}}
"""


def write(
    folder: Path, guarantee: str, generator: str, file: str = "sums.py", application: str = APPLICATION
) -> None:
    """Write application (`file`) and job.yaml into `folder`; over those that are there."""
    (folder / file).write_text(application)
    (folder / "job.yaml").write_text(MANIFEST.format(file=file, guarantee=guarantee, generator=generator))
