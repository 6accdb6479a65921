"""A file that a process is given and cannot use is an error that names it."""

from pathlib import Path

import pytest

from flamestream.machine.process_shell import read_secret
from flamestream.model.errors import ManifestError


def test_a_secret_is_its_text_without_white_space_around(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("  abc\n")
    assert read_secret(tmp_path / "token", "the token") == "abc"


def test_a_secret_that_is_missing_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="token: cannot read the token: No such file"):
        read_secret(tmp_path / "token", "the token")
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    with pytest.raises(ManifestError, match="token: cannot read the token: it is no text in utf-8"):
        read_secret(tmp_path / "token", "the token")
