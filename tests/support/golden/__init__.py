"""Golden files: each durable format as every version wrote it, in `tests/golden/FORMAT/VERSION/`.

    PYTHONPATH=runtime:tests python -m support.golden     # writes the newest versions that are missing

| a module     | has the formats of                                        |
|--------------|-----------------------------------------------------------|
| snapshots.py | job record, index, segment, held output, requests         |
| journals.py  | the journal in its three places, keys of an HTTP source   |
| sinks.py     | files, Kafka and rolling sinks                            |
| payloads.py  | payloads and metas                                        |
| runs.py      | run folder, lineage, the note of a bootstrap              |

Keeps: what a file must be read as is said by hand here, and a file that is there is never written again.
"""
