"""The docs' examples that need nothing but a machine, as a new user types them: what stands on the page is
what is run.

Two things differ: workers are plain processes (`--no-spark`) where Spark is not the point, and folders stand
in the place of S3. The table is tests/support/docs/doc_table.py.
"""

import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flamestream.job.exit_codes import ExitCode
from support.docs.doc_blocks import REPOSITORY, blocks
from support.eventually import eventually
from support.runs.scratch import ENVIRONMENT, Scratch

BLOCKS = {block.name: block.text for block in blocks()}


def block(file: str, begins: str) -> str:
    """The one of a page that begins so."""
    (found,) = [text for name, text in BLOCKS.items() if name.startswith(f"{file}: {begins}")]
    return found


def commands(text: str) -> list[list[str]]:
    """Of lines like `flamestream status job.yaml   # one screen`: what stands behind the program's name."""
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    assert all(words[0] == "flamestream" for words in lines if words), "only ours are typed here"
    return [words[1:] for words in lines if words]


@pytest.fixture
def first_job(scratch: Scratch) -> Scratch:
    """The manifest's own job in a folder of its own."""
    scratch.write("inverted_index.py", (REPOSITORY / "examples" / "inverted_index.py").read_text())
    scratch.write("job.yaml", block("manifest.md", "apiVersion:"))
    for name, text in (("a.txt", "to be or not to be"), ("b.txt", "let it be")):
        scratch.write(f"docs/{name}", text)
    return scratch


def test_the_whole_job_of_the_page_about_files(scratch: Scratch, tmp_path: Path) -> None:
    """Orders in, totals out as Parquet, and the page's own lines read them."""
    scratch.write("orders.py", block("files.md", "# orders.py"))
    manifest = re.sub(r"s3://shop/(\w+)\?endpoint=[^\"]*", r"\1", block("files.md", "# job.yaml"))
    scratch.write("job.yaml", manifest.replace('path: "totals"', 'path: "out"'))
    scratch.write(
        "orders/1.jsonl", "".join(json.dumps({"customer": f"c{n % 3}", "cents": n}) + "\n" for n in range(30))
    )
    run = scratch.begin("run", "job.yaml", "--no-spark", "--drain")
    epochs = tmp_path / "state" / "indexes"
    eventually(
        lambda: (
            epochs.is_dir()
            and any(epochs.iterdir())
            and scratch.type("cat", "totals", "job.yaml").text.count("\n") == 30
        ),
        "all totals are there",
        within=90,
    )
    run.terminate()
    run.communicate(timeout=60)
    assert run.returncode == ExitCode.OK
    read = subprocess.run(
        [sys.executable, "-c", block("files.md", "import glob")],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        check=False,
    )
    assert read.returncode == 0, read.stderr
    assert "customer: string" in read.stdout and "cents: int64" in read.stdout


@pytest.mark.slow  # two minutes: the runner and the history have tests of their own
@pytest.mark.spark
def test_a_job_that_begins_with_a_history_and_is_run_again_as_a_batch(first_job: Scratch) -> None:
    """The commands of the page about runners."""
    (first_job.path / "history").mkdir()
    pq.write_table(
        pa.table({"name": ["x.txt", "y.txt"], "text": ["to fly", "to be"]}),
        first_job.path / "history" / "h.parquet",
    )
    for words in commands(block("runners.md", "flamestream bootstrap")):
        said = first_job.type(*words, *(["--no-spark"] if words[0] == "run" else []), within=300)
        assert said.code == ExitCode.OK, f"{words}: {said.text}"
    told = first_job.type("cat", "index", "job.yaml").text
    assert (
        max(json.loads(line)["documents"] for line in told.splitlines() if json.loads(line)["word"] == "to")
        == 3
    )
    assert "0 lost, 0 doubled" in first_job.type("audit", "job.yaml").text
    stream, batch = commands(block("runners.md", "flamestream run job.yaml"))
    assert first_job.type("reset", "job.yaml", "--yes").code == ExitCode.OK
    assert first_job.type(*stream, "--no-spark").code == ExitCode.OK
    again = first_job.type(*batch, within=300)
    assert "0 results delivered, 7 were there already" in again.text, again.text


@pytest.mark.spark
def test_the_cells_of_the_page_about_tables(first_job: Scratch) -> None:
    """In one session, one after another."""
    assert first_job.type("run", "job.yaml", "--no-spark").code == ExitCode.OK
    epoch = json.loads(first_job.type("snapshots", "list", "job.yaml", "--json").text)[-1]["epoch"]
    session = (
        "import os, sys\nfrom pyspark.sql import SparkSession\nos.environ['PYSPARK_PYTHON'] = "
        "sys.executable\n"
        "spark = SparkSession.builder.master('local[2]').config('spark.ui.enabled', 'false').getOrCreate()\n"
    )
    cells = [
        block("spark-tables.md", begins)
        for begins in ("from flamestream.spark.tables", "state = ", "index = ")
    ]
    told = (
        "print('STATE', state.count(), 'INDEX', index.count(), 'THEN', yesterday.count(), 'COLUMNS', 'word' "
        "in yesterday.columns)\n"
        "try:\n    job().option('sink', 'index').option('epoch', 4711).load().count()\n"
        "except Exception as error:\n    print('UNKNOWN', error)\n"
        "spark.createDataFrame([(1, 2, 'a'), (1, 1, 'b')], 'day int, id int, what "
        "string').createOrReplaceTempView('sales')\n"
    )
    saved = block("spark-tables.md", "from flamestream.spark.frames.saved_input")
    script = first_job.write("cells.py", "\n".join([session, *cells, told, saved]).replace("41", str(epoch)))
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=first_job.path,
        text=True,
        capture_output=True,
        check=False,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, f"after {time.monotonic() - began:.0f} s: {done.stderr[-3000:]}"
    assert re.search(r"STATE 6 INDEX 7 THEN 7 COLUMNS False", done.stdout), done.stdout
    assert (
        "no snapshot of epoch 4711 of job 'inverted-index'" in done.stdout and "snapshots list" in done.stdout
    )
    assert pq.read_table(first_job.path / "sales-input").column("what").to_pylist() == ["b", "a"]
