"""Specs of sources: an error names the field's place, and the traits are what the engine has to know."""

import pytest

from flamestream.connectors.sources import SourceTraits, describe
from flamestream.model.errors import ManifestError


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"files": {"path": 3}}, "spec.sources.docs.files.path: Expected `str"),
        (
            {"files": {"path": "a", "folow": True}},
            "spec.sources.docs.files: Object contains unknown field `folow`",
        ),
        ({"files": {"paths": ["a", 4]}}, "spec.sources.docs.files.paths[1]: Expected `str`"),
        ({"files": {}}, "spec.sources.docs.files: give either `path` or `paths`"),
        ({"files": {"path": "a", "paths": ["b"]}}, "spec.sources.docs.files: give either"),
        ({"files": {"paths": ["b", "b"]}}, "spec.sources.docs.files: `paths` names a path twice"),
        (
            {"files": {"path": "a", "records": "words"}},
            "spec.sources.docs.files.records: Invalid enum value 'words'",
        ),
        (
            {"files": {"path": "a", "encoding": "klingon"}},
            "spec.sources.docs.files: `encoding`: Python has no text encoding",
        ),
        (
            {"files": {"path": "a", "encoding": "base64"}},
            "spec.sources.docs.files: `encoding`: Python has no text encoding",
        ),
        (
            {"files": {"path": "a", "records": "lines", "encoding": "utf-16"}},
            "spec.sources.docs.files: `encoding`: lines of utf-16",
        ),
        ({"generator": {"rate": 0}}, "spec.sources.docs.generator: `rate` must be above 0"),
        ({"generator": {"count": -1}}, "spec.sources.docs.generator: `count` cannot be negative"),
        ({"socket": {"address": "7001"}}, "spec.sources.docs.socket: an address is host:port"),
        ({"socket": {"address": "host:70000"}}, "spec.sources.docs.socket: an address is host:port"),
        (
            {"parquet": {"path": "t"}},
            'spec.sources.docs.parquet: write files: {path: t, pattern: "**/*.parquet", format: parquet, '
            "tuples: true}",
        ),
        (
            {"files": {"path": "a", "tuples": True}},
            "spec.sources.docs.files: `tuples` is for format: parquet",
        ),
        ({"kafca": {}}, "spec.sources.docs.kafca: there is no such kind; choose one of files, generator"),
        ({}, "spec.sources.docs: expected exactly one of"),
        ({"socket": {}, "files": {}}, "spec.sources.docs: expected exactly one of"),
        ("files", "spec.sources.docs: expected a mapping"),
    ],
)
def test_errors_begin_with_the_place(spec: object, place: str) -> None:
    with pytest.raises(ManifestError) as error:
        describe(spec, "spec.sources.docs")
    assert str(error.value).startswith(place)


@pytest.mark.parametrize(
    ("spec", "traits"),
    [
        ({"files": {"path": "a"}}, SourceTraits(timed=True, run_length=1, replayable=True, bounded=True)),
        (
            {"files": {"path": "a", "records": "lines"}},
            SourceTraits(timed=True, run_length=64, replayable=True, bounded=True),
        ),
        (
            {"files": {"path": "a", "follow": True}},
            SourceTraits(timed=False, run_length=0, replayable=True, bounded=False, in_sequence=True),
        ),
        (
            {"files": {"path": "a", "follow": True, "format": "jsonl"}},
            SourceTraits(timed=False, run_length=0, replayable=True, bounded=False),
        ),
        (
            {"files": {"path": "a", "follow": True, "format": "jsonl", "pattern": "*.jsonl.gz"}},
            SourceTraits(timed=False, run_length=0, replayable=True, bounded=False, in_sequence=True),
        ),
        (
            {"files": {"path": "s3://bucket/a", "follow": True, "format": "csv"}},
            SourceTraits(timed=False, run_length=0, replayable=True, bounded=False, in_sequence=True),
        ),
        ({"generator": {"rate": 50}}, SourceTraits(timed=True, run_length=1, replayable=True, bounded=False)),
        ({"generator": None}, SourceTraits(timed=True, run_length=64, replayable=True, bounded=False)),
        (
            {"socket": {"address": "[::1]:7001"}},
            SourceTraits(timed=False, run_length=0, replayable=False, bounded=False),
        ),
    ],
)
def test_traits(spec: object, traits: SourceTraits) -> None:
    assert describe(spec) == traits
