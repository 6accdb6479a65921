"""Documents that are not text, or may not be read: an error item or a failed job names file and byte."""

import os
from pathlib import Path
from typing import Any

import pytest

from flamestream.connectors.files.documents import Documents
from flamestream.connectors.files.listing import LocalFiles, Place
from flamestream.job.exit_codes import ExitCode
from flamestream.model.failure import located
from flamestream.model.payload import ErrorValue
from support.documents import Folder
from support.runs.cli_job import canonical
from support.runs.numbers_job import INDEX, Make, check, reference


def test_documents_that_are_not_utf8_go_to_the_dead_letters_and_the_rest_is_indexed(
    make: Make, tmp_path: Path
) -> None:
    records: list[Any] = list(Folder(tmp_path / "docs").add(range(60)))
    for number in (7, 31):
        (tmp_path / "docs" / f"{number:05d}.txt").write_bytes(b"caf\xe9 au lait")
        message = f"{number:05d}.txt: byte 3 (0xe9) is not utf-8: invalid continuation byte"
        records[number] = ErrorValue("source docs", "UnicodeDecodeError", message)
    job = make(INDEX, {"files": {"path": "docs"}}, "bad", onError={"deadLetter": "bad"})
    job.start()
    check(job)
    wanted = reference(INDEX, records)
    assert job.delivered("bad") == [located(records[number], "docs", ("", number)) for number in (7, 31)]
    assert canonical(job.delivered("index")) == wanted["index"]
    assert job.audit()["clean"]


def test_a_document_that_is_not_utf8_fails_a_job_with_file_and_byte_and_once_it_is_mended_the_job_goes_on(
    make: Make, tmp_path: Path
) -> None:
    records = Folder(tmp_path / "docs").add(range(60))
    # loads what decoding needs, too
    before, whole = reference(INDEX, records[:31])["index"], reference(INDEX, records)["index"]
    bad = tmp_path / "docs" / "00031.txt"
    good = bad.read_bytes()
    bad.write_bytes(b"caf\xe9")
    job = make(INDEX, {"files": {"path": "docs"}})
    job.start()
    message = check(job, "failed", ExitCode.JOB_FAILED)
    assert "source docs raised UnicodeDecodeError: 00031.txt: byte 3 (0xe9) is not utf-8" in message
    assert canonical(job.delivered("index")) == before
    bad.write_bytes(good)
    job.start()
    check(job)
    assert canonical(job.delivered("index")) == whole


@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="only root can lose the right to read; for others test_sources_files.py has the same",
)
def test_a_document_that_may_not_be_read_is_an_error_item_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    folder = LocalFiles([Place(str(tmp_path), "")], "**/*")
    (file,) = folder.listing(settled_only=True)
    os.seteuid(65534)
    try:
        record, _ = Documents("docs", "utf-8").record(folder, file)
    finally:
        os.seteuid(0)
    assert record.payload == ErrorValue(
        "source docs", "PermissionError", "a: cannot be read: Permission denied"
    )
