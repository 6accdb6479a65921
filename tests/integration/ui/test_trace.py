"""`flamestream trace` finds the record that led to an item: here each item says itself which one that was."""

from pathlib import Path

from support.runs.cli_job import CliJob

APPLICATION = """
import flamestream as fs

graph = fs.Graph("words")
graph.source("lines").flat_map(str.split).map(str.upper).sink("words", key=str)
"""
LINES = [f"first-{number}- second-{number}-" for number in range(60)]


def test_an_item_leads_back_to_the_line_that_has_it(tmp_path: Path) -> None:
    (tmp_path / "traced_words.py").write_text(APPLICATION)
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in LINES))
    spec = {
        "sources": {"lines": {"files": {"path": "lines.txt", "records": "lines"}}},
        "sinks": {"words": {"files": {"path": "words"}}},
    }
    job = CliJob(tmp_path, tmp_path / "traced_words.py", spec, spark=False)
    try:
        job.start()
        assert job.end()[0] == 0
        code, found = job.ask("trace", str(job.run_folder.path), "-", "--limit", "100")
        assert code == 0 and len(found) == 100
        for each in found:
            assert each["payload"].lower() in each["record"].split()
            assert LINES[each["offset"]] == each["record"]
            assert (each["source"], each["sink"], each["vertices"]) == ("lines", "words", [0, 1, 2, 3])
        assert job.ask("trace", str(job.run_folder.path), "FIRST-7-")[1][-1]["record"] == LINES[7]
        assert job.ask("trace", str(job.run_folder.path), "nothing of it") == (0, [])
    finally:
        job.close()
