"""What `validate` finds before anything runs: missing input, wrong fields, functions that are not pure, keys
that are floats."""

import json
import os
from itertools import count
from pathlib import Path

import pytest

from flamestream.job.validation import CheckedJob, checked
from flamestream.model.errors import FlameStreamError, GraphError, ManifestError, UserError
from flamestream.node.trial import MOST_WARNINGS, RECORDS, tried
from support.runs.scratch import SMALL, Scratch

NUMBER = count()
HEAD = """\
import random
from dataclasses import dataclass
import flamestream as fs

@fs.payload_type
@dataclass(frozen=True, slots=True)
class Sale{n}:
    shop: str
    cents: int
    weight: float = 1.0

"""
TYPED = "sources: {sales: {files: {path: in.jsonl, format: jsonl, type: Sale%d}}}"
LINES = "sources: {lines: {files: {path: in.txt, records: lines%s}}}"


def job(folder: Path, body: str, sources: str = "", *more: str) -> CheckedJob:
    """A checked job over the application `body`, where {n} is its own number: a process loads a module
    once."""
    n = next(NUMBER)
    scratch = Scratch(folder)
    scratch.write("in.txt", "".join(f"north,{number}\n" for number in range(50)))
    scratch.write(
        "in.jsonl", "".join(json.dumps({"shop": "north", "cents": number}) + "\n" for number in range(50))
    )
    name = f"trial_{os.getpid()}_{n}.py"
    source = sources or (TYPED % n if "sales" in body else LINES % "")
    sinks = () if any(line.startswith("sinks:") for line in more) else ("sinks: {out: {files: {path: out}}}",)
    scratch.job("", source, *sinks, *SMALL, *more)
    scratch.write(name, (HEAD + body).replace("{n}", str(n)))
    (folder / "job.yaml").write_text((folder / "job.yaml").read_text().replace("app.py", name))
    return checked(folder / "job.yaml")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            'reduce(key=fs.field("shp"), combine=fs.count())',
            r'fs.field\("shp"\): Sale\d+ has no field \'shp\' .*did you mean \'shop\'\?',
        ),
        (
            'reduce(key=fs.field("shop"), combine=fs.total("sum"))',
            r'fs.total\("sum"\): Sale\d+ has no field \'sum\'',
        ),
        (
            'filter(bool).reduce(key=fs.field("shop"), combine=fs.append("day"))',
            r'fs.append\("day"\): Sale\d+ has no field',
        ),
        (
            'reduce(key=fs.field("shop"), combine=fs.count(), emit=fs.record(Sale{n}, "shop", '
            'cents=fs.state, weight=fs.field("w")))',
            r'fs.field\("w"\): Sale\d+ has no field \'w\'',
        ),
        ('merge(graph.source("more"))', None),
        ('map(lambda sale: str(sale)).reduce(key=fs.field("shp"), combine=fs.count())', None),
    ],
)
def test_a_field_that_the_class_lacks_is_named_before_anything_is_read(
    tmp_path: Path, body: str, message: str | None
) -> None:
    text = f'graph = fs.Graph("g")\ngraph.source("sales").{body}.sink("out")\n'
    sources = (
        "sources: {sales: {generator: {count: 3}}, more: {generator: {count: 3}}}" if "more" in body else ""
    )
    if message is None:
        job(tmp_path, text, sources)
        return
    with pytest.raises(GraphError, match=r"the reduce of trial_\w+\.py:\d+: " + message):
        job(tmp_path, text)


@pytest.mark.parametrize("follow", ["", ", follow: true"])
def test_the_first_records_go_through(tmp_path: Path, follow: str) -> None:
    body = 'graph = fs.Graph("g")\ngraph.source("lines").map(lambda l: 1 // (int(l[6:]) - 3)).sink("out")\n'
    trial = tried(job(tmp_path, body, LINES % follow, *(["journal: {folder: journal}"] if follow else [])))
    assert trial.tried == {"lines": RECORDS}
    (warning,) = trial.warnings
    assert (
        "raised ZeroDivisionError" in warning
        and "(record 3 of source 'lines')" in warning
        and "was given 'north,3'" in warning
    )


def test_a_source_whose_every_record_fails_cannot_run_unless_a_sink_takes_them(tmp_path: Path) -> None:
    body = 'graph = fs.Graph("g")\ngraph.source("lines").map(lambda l: 1 // 0).sink("out")\n'
    with pytest.raises(GraphError, match=r"raised ZeroDivisionError.*\(record 0 of source 'lines'\)"):
        tried(job(tmp_path, body))
    letters = [
        "sinks: {out: {files: {path: out}}, errors: {files: {path: errors}}}",
        "onError: {deadLetter: errors}",
    ]
    assert len(tried(job(tmp_path, body, LINES % "", *letters)).warnings) == MOST_WARNINGS


@pytest.mark.parametrize(
    "body",
    [
        "map(lambda l: (l, random.random()))",
        "filter(lambda l: random.random() < 0.5)",
        "flat_map(lambda l: [random.random()])",
        "group(2, key=lambda l: random.random())",
        "reduce(key=len, initial=int, combine=lambda a, l: random.random())",
        "balance(lambda l: random.randrange(1 << 30)).map(str)",
    ],
)
def test_a_function_that_depends_on_chance_is_named(tmp_path: Path, body: str) -> None:
    text = f'graph = fs.Graph("g")\ngraph.source("lines").{body}.sink("out")\n'
    with pytest.raises(GraphError, match=r"<lambda> gave two results for one input") as caught:
        tried(job(tmp_path, text))
    assert ".py:" in str(caught.value) and "was given " in str(caught.value)


def test_a_field_that_only_a_record_shows_to_be_missing_is_named(tmp_path: Path) -> None:
    text = (
        'graph = fs.Graph("g")\ngraph.source("lines").map(lambda l: l).reduce(key=fs.field("shp"), '
        'combine=fs.count()).sink("out")\n'
    )
    with pytest.raises(
        GraphError, match=r'fs.field\("shp"\) raised AttributeError: \'str\' object has no attribute \'shp\''
    ):
        tried(job(tmp_path, text))


def test_input_that_is_not_there_is_missed(tmp_path: Path) -> None:
    text = 'graph = fs.Graph("g")\ngraph.source("lines").sink("out")\n'
    made = job(tmp_path, text)
    (tmp_path / "in.txt").write_text("")
    assert tried(made).warnings == ["spec.sources.lines: there are no records in it now"]
    (tmp_path / "in.txt").unlink()
    with pytest.raises(
        ManifestError,
        match=r"job.yaml:6: spec.sources.lines.files.path: .*in.txt: there is no such file or folder",
    ):
        tried(made)


def test_a_key_that_is_a_float_is_a_warning(tmp_path: Path) -> None:
    (static,) = job(
        tmp_path, 'graph = fs.Graph("g")\ngraph.source("sales").sink("out", key=fs.field("weight"))\n'
    ).warnings
    assert (
        "the sink of trial_" in static
        and 'fs.field("weight") of Sale' in static
        and "0.0 and -0.0 are two keys" in static
    )
    text = (
        'graph = fs.Graph("g")\ngraph.source("lines").group(2, key=lambda l: (int(l[6:]) / 4, '
        'l)).sink("out")\n'
    )
    (dynamic,) = tried(job(tmp_path, text)).warnings
    assert "the key (0.0, 'north,0') is a float" in dynamic


def test_a_server_is_not_asked(tmp_path: Path) -> None:
    text = 'graph = fs.Graph("g")\ngraph.source("lines").sink("out")\n'
    made = job(
        tmp_path, text, "sources: {lines: {socket: {address: 'nowhere:1'}}}", "journal: {folder: journal}"
    )
    try:
        assert tried(made).tried == {}
    except FlameStreamError as error:
        raise AssertionError("it was asked") from error


def test_a_function_that_never_returns_is_named_with_its_line(tmp_path: Path) -> None:
    text = (
        "def forever(line):\n    while True:\n        try:\n            int(line)\n        except "
        "Exception:\n            pass\n\n"
    )
    made = job(tmp_path, text + 'graph = fs.Graph("g")\ngraph.source("lines").map(forever).sink("out")\n')
    with pytest.raises(
        UserError, match=r"did not come to an end within 1 s: it was at trial_\d+_\d+.py:\d+ in forever"
    ):
        tried(made, seconds=1.0)


def test_a_generator_without_end_is_named(tmp_path: Path) -> None:
    text = "def forever(line):\n    while True:\n        yield line\n\n"
    made = job(
        tmp_path,
        text
        + 'graph = fs.Graph("g", max_results=100)\ngraph.source("lines").flat_map(forever).sink("out")\n',
    )
    with pytest.raises(
        GraphError, match=r"forever raised ResultLimit: it makes more than 100 results"
    ) as told:
        tried(made)
    assert "flat_map of trial_" in str(told.value) and "was given 'north,0'" in str(told.value)


def test_a_function_of_a_source_that_never_returns_is_named_too(tmp_path: Path) -> None:
    (tmp_path / "hanging_source.py").write_text("def forever(number):\n    while True:\n        pass\n")
    text = 'import hanging_source\ngraph = fs.Graph("g")\ngraph.source("lines").sink("out")\n'
    made = job(
        tmp_path, text, "sources: {lines: {generator: {count: 3, function: 'hanging_source:forever'}}}"
    )
    with pytest.raises(
        UserError, match=r"did not come to an end within 1 s: it was at hanging_source.py:\d in forever"
    ):
        tried(made, seconds=1.0)
