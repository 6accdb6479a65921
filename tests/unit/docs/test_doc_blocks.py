"""Every code block of the docs is what the product takes: parsed, checked or executed; those that need
nothing else are run elsewhere."""

import ast
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
import yaml

from flamestream.cli.kubectl.main import app as kubectl_app
from flamestream.cli.main import command_line
from flamestream.connectors import clients, sinks, sources
from flamestream.job.manifest import Job, parse_job
from flamestream.job.validation import checked
from flamestream_operator.api.drill import DrillSpec
from flamestream_operator.api.snapshot import SnapshotSpec
from support.docs.doc_blocks import REPOSITORY, Block, blocks
from support.docs.doc_forms import forms
from support.docs.doc_table import CODE, JOB, LINES, OBJECT, PART, ROWS, STUB

FLAMESTREAM = command_line()
BLOCKS = {block.name: block for block in blocks()}
OUTSIDE = (
    "docker", "helm", "kind", "kubectl", "echo", "export", "tail", "psql", "redis-cli",
    "kafka-console-consumer.sh", "kafka-console-producer.sh",
)  # fmt: skip
"""Programs that are not ours."""


def of(way: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row[0] == way])


def test_every_block_has_a_row_and_every_row_a_block() -> None:
    assert len(blocks()) == len(BLOCKS), "two blocks begin alike: their rows could not be told apart"
    formless = [name for name, form in forms(blocks()).items() if not form]
    assert not formless, "say in tests/support/docs/doc_table.py what is done with a new block"
    assert not ROWS.keys() - BLOCKS.keys(), "these rows have no block"


# --- commands -----------------------------------------------------------------------------------------------


@of(LINES)
def test_commands_are_ones_that_there_are(name: str) -> None:
    for line in commands(BLOCKS[name]):
        check_command(line)


def commands(block: Block) -> list[list[str]]:
    """The words of each line, without comments; what is behind a pipe is a line of its own."""
    whole = block.text.replace("\\\n", " ")
    lines = [shlex.split(part, comments=True) for line in whole.splitlines() for part in line.split(" | ")]
    return [line for line in lines if line]


def check_command(words: list[str]) -> None:
    while re.fullmatch(r"[A-Z_0-9]+=.*", words[0], re.DOTALL):
        words = words[1:]
    match words:
        case ["flamestream", *rest]:
            parsed(FLAMESTREAM, rest)
        case ["kubectl", "flamestream", *rest]:
            parsed(kubectl_app, rest)
        case ["make", *rest]:
            makefile = (REPOSITORY / "Makefile").read_text()
            for target in (word for word in rest if "=" not in word):
                assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make has no target {target}"
        case ["python", "benchmarks", name, *_]:
            files = (f"figures/{name}.py", f"{name}/figure.py")
            there = any((REPOSITORY / "benchmarks" / file).exists() for file in files)
            assert there or name in ("report", "suite"), f"there is no figure {name}"
        case ["pytest" | "python", *rest]:
            for file in (word for word in rest if "/" in word and not word.startswith("-")):
                assert (REPOSITORY / file).exists(), f"{file} is not there"
        case [program, *_]:
            assert program in OUTSIDE, f"{program} is neither ours nor known"


def parsed(app: typer.Typer, words: list[str]) -> None:
    """As the program does, up to the call."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        assert words and words[0] in command.commands, f"there is no command {' '.join(words)}"
        command, words = command.commands[words[0]], words[1:]
    command.make_context(command.name, list(words))


# --- manifests ----------------------------------------------------------------------------------------------

WHOLE = {
    "application": {"file": "app.py", "graph": "graph"},
    "workers": {"replicas": 2},
    "checkpoint": {"interval": "1s", "store": "snapshots"},
}


@of(JOB)
def test_whole_manifests_are_jobs_that_can_run(name: str, tmp_path: Path) -> None:
    page = [block for block in BLOCKS.values() if block.file == BLOCKS[name].file]
    manifest = next(block for block in page if "kind: FlameStreamJob" in block.text)
    application = str(yaml.safe_load(manifest.text)["spec"]["application"]["file"])
    code = next((block.text for block in page if block.text.startswith(f"# {application}")), None)
    found = [
        folder / application
        for folder in (REPOSITORY / "examples", REPOSITORY / "benchmarks" / "jobs")
        if (folder / application).exists()
    ]
    own = f"doc_{BLOCKS[name].file.removesuffix('.md')}_{application}"  # a process loads a module once
    (tmp_path / own).write_text(code if code is not None else found[0].read_text())
    (tmp_path / "job.yaml").write_text(manifest.text.replace(f"file: {application}", f"file: {own}"))
    assert checked(tmp_path / "job.yaml").graph.sinks


@of(PART)
def test_parts_of_manifests_are_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "examples" / "connectors"))
    for text in lines_of(BLOCKS[name]):
        part = yaml.safe_load(text.replace("{...}", "{}"))
        part = {"sources": {"docs": part}} if "kafka" in part else part
        spec = {**WHOLE, "sources": {"docs": {"generator": {}}}, "sinks": {"index": {"discard": {}}}, **part}
        if "application" in part:
            spec["application"] = {**WHOLE["application"], **part["application"]}  # type: ignore[dict-item]
        job = read(spec)
        for source in job.spec.sources:
            sources.describe(job.source(source), f"spec.sources.{source}")
        for sink in job.spec.sinks:
            sinks.describe(job.sink(sink), f"spec.sinks.{sink}")
        for client in job.spec.clients:
            clients.settings_of(job.client(client), f"spec.clients.{client}")


def lines_of(block: Block) -> list[str]:
    """Each by itself, if they say the same field again and again."""
    lines = block.text.splitlines()
    return lines if len(lines) > 1 and len({line.split(":")[0] for line in lines}) == 1 else [block.text]


def read(spec: dict[str, Any]) -> Job:
    document = {
        "apiVersion": "flamestream.dev/v1alpha1",
        "kind": "FlameStreamJob",
        "metadata": {"name": "docs"},
        "spec": spec,
    }
    return parse_job(yaml.safe_dump(document), "job.yaml")


@of(OBJECT)
def test_kubernetes_objects_are_taken(name: str) -> None:
    text = BLOCKS[name].text
    for document in re.findall(r"<<EOF\n(.*?)EOF", text, re.DOTALL) or [text]:
        found = yaml.safe_load(document)
        match found["kind"]:
            case "FlameStreamJob":
                assert parse_job(document, "job.yaml").name == found["metadata"]["name"]
            case "FlameStreamDrill":
                msgspec.convert(found["spec"], DrillSpec)
            case "FlameStreamSnapshot":
                msgspec.convert(found["spec"], SnapshotSpec)
            case other:
                raise AssertionError(f"there is no kind {other}")


# --- Python -------------------------------------------------------------------------------------------------


@of(STUB)
def test_shown_classes_have_what_is_shown(name: str) -> None:
    """Each public name in the body of a class, and each parameter of its methods."""
    text = re.sub(
        r"^(    def [^#\n]*\) -> [^:#\n]*?)\s*(#[^\n]*)?$", r"\1: ...", BLOCKS[name].text, flags=re.MULTILINE
    )
    there = REPOSITORY / ROWS[name][1]
    files = sorted(there.rglob("*.py")) if there.is_dir() else [there]
    real = {
        cls.name: cls
        for file in files
        for cls in ast.walk(ast.parse(file.read_text()))
        if isinstance(cls, ast.ClassDef)
    }
    for shown in (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)):
        assert shown.name in real, f"there is no class {shown.name}"
        assert members(shown) <= members(real[shown.name]), members(shown) - members(real[shown.name])


def members(cls: ast.ClassDef) -> set[str]:
    """Names of fields; of methods, with those of their parameters."""
    found = set()
    for node in cls.body:
        match node:
            case ast.FunctionDef(name=name, args=args) | ast.AsyncFunctionDef(name=name, args=args):
                found.add(f"{name}({', '.join(each.arg for each in [*args.args, *args.kwonlyargs])})")
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Assign(targets=targets):
                found |= {
                    each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)
                }
    inside = [node for node in ast.walk(cls) if isinstance(node, ast.Assign)]
    return found | {
        each.attr for node in inside for each in ast.walk(node) if isinstance(each, ast.Attribute)
    }


AROUND = {"functions.md": "turnover.py"}
"""The example that a page's Python is a part of."""


@of(CODE)
def test_python_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    block = BLOCKS[name]
    space: dict[str, Any] = {"__name__": "doc_example"}
    module = type(sys)("doc_example")
    monkeypatch.setitem(sys.modules, "doc_example", module)
    if block.file in AROUND:
        text = (REPOSITORY / "examples" / AROUND[block.file]).read_text()
        exec(compile(text, AROUND[block.file], "exec"), space)  # noqa: S102
        space["graph"] = type(space["graph"])("docs")
    before = dict(space)
    exec(compile(block.text, block.file, "exec"), space)  # noqa: S102
    assert {key for key, value in space.items() if before.get(key) is not value} - {
        "__builtins__",
        "annotations",
    }, "it makes something"
