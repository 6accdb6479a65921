"""Which job a place means, and how old an answer is."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from flamestream.live.port import Answer, Page
from flamestream.machine.process_identity import ProcessIdentity
from flamestream.model.errors import FlameStreamError
from flamestream.model.time import END, FRONT_BITS, Time
from flamestream.node.run_folder import RunFolder, RunInfo, find

MANIFEST = """
apiVersion: flamestream.dev/v1alpha1
kind: FlameStreamJob
metadata: {name: bank}
spec:
  application: {file: app.py, graph: bank}
  sources: {lines: {files: {path: in}}}
  sinks: {out: {files: {path: out}}}
  workers: {replicas: 1, slots: 4}
  checkpoint: {interval: 1s, store: snapshots}
"""


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which job `bank` was run."""
    monkeypatch.chdir(tmp_path)
    manifest = tmp_path / "job.yaml"
    manifest.write_text(MANIFEST)
    info = RunInfo(job="bank", manifest=str(manifest), launcher=ProcessIdentity.of_this_process(), address="")
    RunFolder.of("bank", None).made().write("run.json", info)
    return tmp_path


@pytest.mark.parametrize("place", ["bank", "job.yaml", ".flamestream/bank"])
def test_a_job_is_known_by_its_name_its_manifest_and_its_run_folder(ran: Path, place: str) -> None:
    job, folder = find(Path(place), None)
    assert (job.name, folder.path) == ("bank", ran / ".flamestream" / "bank")


def test_what_stands_there_is_meant_before_a_name(ran: Path) -> None:
    (ran / "bank").write_text(MANIFEST.replace("name: bank", "name: other"))
    assert find(Path("bank"), None)[0].name == "other"


def test_a_name_of_which_nothing_was_run_here_is_no_place(ran: Path) -> None:
    with pytest.raises(FlameStreamError, match="nothing"):
        find(Path("nothing"), None)


def test_an_answer_says_the_moment_that_it_is_of() -> None:
    noon = datetime(2026, 11, 28, 12, 0, 0, 1500, UTC)
    time = Time((int(noon.timestamp() * 1e6) << FRONT_BITS) + 7)
    assert Answer(time, (), "stale").moment == Page(time, (), "", "stale").moment == noon


def test_an_answer_of_all_input_is_of_no_moment() -> None:
    assert Answer(END, (), "committed").moment is None
