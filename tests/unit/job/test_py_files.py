"""What `pyFiles` puts on the path: known by its content, whole, pure, and in nobody's place."""

import hashlib
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from flamestream.job import py_files, unpacked
from flamestream.job.application import load
from flamestream.job.py_files import PyFile, folder_of, found, split
from flamestream.model.errors import ManifestError, UserError

APPLICATION = """\
import flamestream as fs
import {module}

graph = fs.Graph({module}.NAME)
graph.source("in").sink("out")
"""


@pytest.fixture(autouse=True)
def a_fresh_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(unpacked, "ROOM", tmp_path / "room" / "py-files")
    monkeypatch.setattr(unpacked, "_held", {})
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def archive(file: Path, **members: str) -> str:
    """A zip with modules of these names; its place."""
    with zipfile.ZipFile(file, "w") as made:
        for name, text in members.items():
            made.writestr(name.replace("__slash__", "/"), text)
    return str(file)


def module(file: Path, **members: str) -> str:
    return archive(file, **{f"{name}.py": text for name, text in members.items()})


def loaded(folder: Path, *files: PyFile, of: str) -> str:
    """The name that the application takes from the module `of`."""
    file = folder / f"application_of_{of}.py"
    file.write_text(APPLICATION.format(module=of))
    return load(file, "graph", files).name


def test_an_archive_is_on_the_path_of_who_loads_the_application(tmp_path: Path) -> None:
    assert loaded(tmp_path, found(module(tmp_path / "lib.zip", shop="NAME = 'shops'")), of="shop") == "shops"


def test_a_module_is_too_under_its_name(tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    for name in ("prices", "others"):
        (tmp_path / "libs" / f"{name}.py").write_text("NAME = __name__")
    files = [found(str(tmp_path / "libs" / f"{name}.py")) for name in ("prices", "others")]
    assert files[0].sha256 == files[1].sha256
    assert loaded(tmp_path, *files, of="prices") == "prices"
    assert loaded(tmp_path, *files, of="others") == "others"


def test_a_pure_wheel_with_packages_and_data_is_unpacked(tmp_path: Path) -> None:
    text = "from pathlib import Path\nNAME = (Path(__file__).parent / 'name.txt').read_text()"
    wheel = archive(
        tmp_path / "shop-1.0-py3-none-any.whl", **{"shopping/__init__.py": text, "shopping/name.txt": "data"}
    )
    assert loaded(tmp_path, found(wheel), of="shopping") == "data"


def test_it_comes_before_what_is_installed_and_behind_the_application(tmp_path: Path) -> None:
    installed = tmp_path / "site-packages"
    installed.mkdir()
    for name in ("first", "second"):
        (installed / f"{name}.py").write_text("NAME = 'installed'")
    sys.path.insert(0, str(installed))
    (tmp_path / "second.py").write_text("NAME = 'beside'")
    file = found(module(tmp_path / "lib.zip", first="NAME = 'listed'", second="NAME = 'listed'"))
    assert loaded(tmp_path, file, of="first") == "listed"
    assert loaded(tmp_path, file, of="second") == "beside"


def test_the_first_of_two_counts(tmp_path: Path) -> None:
    files = [found(module(tmp_path / f"{name}.zip", twice=f"NAME = '{name}'")) for name in ("a", "b")]
    assert loaded(tmp_path, *files, of="twice") == "a"


def test_the_application_may_be_in_one(tmp_path: Path) -> None:
    file = found(
        module(tmp_path / "app.zip", within=APPLICATION.format(module="beside"), beside="NAME = 'inside'")
    )
    assert load(tmp_path / "elsewhere" / "within.py", "graph", [file]).name == "inside"


def test_a_file_that_changes_while_the_job_runs_changes_nothing(tmp_path: Path) -> None:
    file = found(module(tmp_path / "lib.zip", steady="NAME = 'old'"))
    module(tmp_path / "lib.zip", steady="NAME = 'new'")
    assert loaded(tmp_path, file, of="steady") == "old"


def test_a_machine_that_has_not_seen_it_refuses_another_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = found(module(tmp_path / "lib.zip", shifted="NAME = 'old'"))
    monkeypatch.setattr(unpacked, "ROOM", tmp_path / "another machine's" / "py-files")
    (tmp_path / "another machine's").mkdir(mode=0o700)
    module(tmp_path / "lib.zip", shifted="NAME = 'new'")
    with pytest.raises(
        ManifestError, match=rf"lib\.zip has the SHA-256 [0-9a-f]+, and is to have {file.sha256}"
    ):
        folder_of(file)


def test_another_content_is_another_file_and_a_pin_holds_it(tmp_path: Path) -> None:
    before = found(module(tmp_path / "lib.zip", pinned="1"))
    assert split(str(before)) == (
        before.place,
        hashlib.sha256((tmp_path / "lib.zip").read_bytes()).hexdigest(),
    )
    assert found(before.place, before.sha256) == before
    assert found(module(tmp_path / "lib.zip", pinned="2")) != before
    with pytest.raises(ManifestError, match="a change of the application"):
        found(before.place, before.sha256)


def torn(file: Path) -> str:
    place = module(file, whole="NAME = 1\n" * 100)
    file.write_bytes(file.read_bytes()[:-30])
    return place


def damaged(file: Path) -> str:
    place = module(file, whole="NAME = 1")
    data = bytearray(file.read_bytes())
    data[data.index(b"NAME")] ^= 1
    file.write_bytes(data)
    return place


def altered(file: Path, bytes_at: dict[int, int]) -> str:
    """An archive in whose directory bytes of its one entry are others."""
    place = module(file, entry="")
    data = bytearray(file.read_bytes())
    for offset, byte in bytes_at.items():
        data[data.index(b"PK\1\2") + offset] = byte
    file.write_bytes(data)
    return place


def written(file: Path, text: str) -> str:
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda f: str(f / "no.zip"), "no.zip cannot be read: No such file"),
        (
            lambda f: torn(f / "t.zip"),
            "t.zip is torn, or no zip archive: File is not a zip file: copy or build it again",
        ),
        (
            lambda f: damaged(f / "d.zip"),
            "d.zip is torn, or no zip archive: its member whole.py cannot be read (Bad CRC-32",
        ),
        (lambda f: written(f / "text.whl", "no zip"), "text.whl is torn, or no zip archive"),
        (lambda f: altered(f / "v.zip", {6: 99}), "v.zip is torn, or no zip archive: zip file version 9.9"),
        (lambda f: altered(f / "u.zip", {9: 8, 46: 0xFF}), "u.zip is torn, or no zip archive: 'utf-8' codec"),
        (
            lambda f: archive(f / "both.zip", **{"both": "", "both/inner.py": ""}),
            "both.zip is torn, or no zip archive: its member both/inner.py cannot be",
        ),
        (lambda f: module(f / "x-1.0-cp311-cp311-linux_x86_64.whl", x=""), "is built for one platform"),
        (
            lambda f: archive(f / "n.zip", **{"n/_n.so": "", "n/__init__.py": ""}),
            "n.zip is not pure Python, it holds n/_n.so",
        ),
        (
            lambda f: module(f / "j.zip", json=""),
            "j.zip holds a module 'json', which would take the place of Python's own: rename it",
        ),
        (
            lambda f: archive(f / "k.zip", **{"flamestream/__init__.py": ""}),
            "'flamestream', which would take the place of FlameStream's own",
        ),
        (
            lambda f: archive(f / "o.zip", **{"../out.py": ""}),
            "o.zip holds '../out.py', which leads out of its folder",
        ),
        (lambda f: written(f / "typing.py", ""), "typing.py holds a module 'typing'"),
        (lambda f: written(f / "half.py", "def f(:"), "half.py is no Python module half.py: invalid syntax"),
    ],
    ids=[
        "missing",
        "torn",
        "damaged",
        "no archive",
        "version",
        "name",
        "file and folder",
        "platform",
        "binary",
        "Python's",
        "ours",
        "outside",
        "Python's module",
        "syntax",
    ],
)
def test_what_cannot_be_used_is_an_error_that_names_the_file(
    tmp_path: Path, make: object, words: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        found(make(tmp_path))  # type: ignore[operator]  # a function of the table
    assert words in str(caught.value)
    assert not [path for path in (tmp_path / "room").rglob("*") if path.is_file()], "nothing of it is left"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lib.tar.gz", "is no archive"),
        ("ftp://host/lib.zip", "unknown scheme"),
        ("lib.zip#sha256=12", "64 hex digits"),
        ("lib.zip#md5=12", "64 hex digits"),
    ],
)
def test_what_cannot_be_a_file_is_refused(text: str, words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        split(text)


def test_a_module_that_is_loaded_from_elsewhere_is_named(tmp_path: Path) -> None:
    file = found(module(tmp_path / "lib.zip", msgspec=""))
    with pytest.raises(
        ManifestError, match=r"lib\.zip holds a module 'msgspec', and this process has loaded another one"
    ):
        loaded(tmp_path, file, of="msgspec")


def test_processes_that_unpack_at_once_find_one_whole_folder(tmp_path: Path) -> None:
    place = module(tmp_path / "lib.zip", shared="NAME = 1")
    pids = []
    for _ in range(8):
        if (pid := os.fork()) == 0:
            os._exit(0 if (folder_of(found(place)) / "shared.py").read_text() == "NAME = 1" else 1)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 8
    assert len(list(unpacked.ROOM.iterdir())) == 1


def test_old_ones_go_but_not_those_that_somebody_uses(tmp_path: Path) -> None:
    used = folder_of(found(module(tmp_path / "used.zip", used="1")))
    os.utime(used, (1, 1))
    for number in range(unpacked.MOST + 3):
        found(module(tmp_path / "lib.zip", **{f"number{number}": ""}))
    assert used.is_dir()
    assert len(list(unpacked.ROOM.iterdir())) == unpacked.MOST


def test_a_folder_that_others_could_write_to_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir(mode=0o777)
    (tmp_path / "room").chmod(0o777)
    with pytest.raises(UserError, match="others may write there"):
        found(module(tmp_path / "lib.zip", any=""))


def test_what_others_could_have_put_there_is_not_loaded(tmp_path: Path) -> None:
    file = found(module(tmp_path / "lib.zip", laid=""))
    unpacked.ROOM.chmod(0o777)
    with pytest.raises(UserError, match="others may write there"):
        folder_of(file)


def test_what_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = module(tmp_path / "lib.zip", large="x = 1\n" * 1000)
    monkeypatch.setattr(unpacked, "MOST_BYTES", 1000)
    with pytest.raises(ManifestError, match=r"lib\.zip holds more than"):
        found(place)
    monkeypatch.setattr(py_files, "MOST_BYTES", 100)
    with pytest.raises(ManifestError, match=r"lib\.zip has more than"):
        found(place)
