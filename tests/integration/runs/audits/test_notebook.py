"""A job in a notebook: what `fs.connect` shows of one that has run."""

import os
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

import flamestream as fs
from flamestream.job.status import JobStatus
from flamestream.live.notebook import Shown
from flamestream.model.errors import ManifestError
from support.runs.site import Site, ended


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    runtime = Path(__file__).parents[4] / "runtime"
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, [str(runtime), os.environ.get("PYTHONPATH", "")]))
    )
    monkeypatch.chdir(tmp_path)
    found = Site(tmp_path)
    yield found
    found.close()


class Cells(HTMLParser):
    """The texts of a table, and its tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, _: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_job_shows_its_status_its_audit_and_its_newest_results(site: Site) -> None:
    site.write("{count: 300}")
    ended(site.start())
    with fs.connect("job.yaml") as job:
        assert "completed" in Cells(job._repr_html_()).texts
        audit = job.audit()
        cells = Cells(audit._repr_html_())
        assert audit.report.clean and cells.texts[0] == "clean"
        assert any("300 records" in text and "0 lost, 0 doubled" in text for text in cells.texts)
        everything = job.newest("totals", 1000)
        assert len(everything) == 300 and list(everything["time"]) == sorted(everything["time"])
        last = job.newest("totals", 7)
        assert last.to_dict("records") == everything.tail(7).to_dict("records")
        with pytest.raises(ManifestError, match="no sink 'nothing'; it has totals"):
            job.newest("nothing")


def test_a_job_that_is_known_by_its_url_alone_says_what_it_lacks() -> None:
    with fs.connect("http://127.0.0.1:1/v1/jobs/j") as job:
        for ask in (job.status, job.latency, job.audit, lambda: job.newest("totals")):
            with pytest.raises(ManifestError, match="connect by the manifest"):
                ask()


def test_what_a_job_says_is_text_and_no_markup() -> None:
    evil = "<script>alert(1)</script>"
    told = JobStatus(job=evil, pid=1, updated=0, phase="running", problems=[f'"{evil}'])
    cells = Cells(Shown(told)._repr_html_())
    assert cells.tags == {"table", "caption", "tr", "th", "td"} and evil in cells.texts
