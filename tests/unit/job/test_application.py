"""What an application is: the digest of its files."""

import os
from pathlib import Path

import pytest

from flamestream.job.application import digest_of, load
from flamestream.job.application_code import code_of, files_of
from flamestream.job.py_files import PyFile
from flamestream.model.errors import UserError


def files(folder: Path, **contents: str) -> dict[str, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_text(content)
    return {name: folder / name for name in contents}


def test_equal_files_in_other_places_have_the_same_digest(tmp_path: Path) -> None:
    here, there = files(tmp_path / "a", job="1", lib="2"), files(tmp_path / "b", lib="2", job="1")
    os.utime(there["job"], (0, 0))
    there["job"].chmod(0o400)
    assert digest_of(here) == digest_of(there)


@pytest.mark.parametrize(
    "other",
    [
        {"job": "1"},
        {"job": "1", "lib": "3"},
        {"job": "1", "lob": "2"},
        {"job": "2", "lib": "1"},
        {"job": "12", "lib": ""},
    ],
)
def test_another_name_or_content_is_another_digest(tmp_path: Path, other: dict[str, str]) -> None:
    assert digest_of(files(tmp_path / "a", job="1", lib="2")) != digest_of(files(tmp_path / "b", **other))


def test_an_application_is_its_file_and_all_that_it_imports_from_its_folder(tmp_path: Path) -> None:
    files(
        tmp_path,
        **{
            "job.py": "import json, shop.prices\nfrom rates import RATE\ndef late():\n    import lazily\n",
            "rates.py": "from deep import *",
            "deep.py": "",
            "lazily.py": "",
            "unused.py": "",
        },
    )
    files(
        tmp_path / "shop",
        **{
            "__init__.py": "",
            "prices.py": "from . import taxes\nfrom ..shop.goods import x",
            "taxes.py": "",
            "goods.py": "",
        },
    )
    found = files_of(tmp_path / "job.py")
    assert sorted(found) == [
        "deep.py", "job.py", "lazily.py", "rates.py", "shop/__init__.py", "shop/goods.py", "shop/prices.py",
        "shop/taxes.py",
    ]  # fmt: skip
    assert found["shop/taxes.py"].samefile(tmp_path / "shop" / "taxes.py")


def test_an_edit_of_what_it_imports_is_another_code(tmp_path: Path) -> None:
    files(tmp_path, **{"job.py": "import rates", "rates.py": "RATE = 1", "other.py": "1"})
    before = code_of(tmp_path / "job.py")
    files(tmp_path, **{"other.py": "2"})
    assert code_of(tmp_path / "job.py") == before
    files(tmp_path, **{"rates.py": "RATE = 2"})
    assert code_of(tmp_path / "job.py") != before


def test_another_content_of_a_py_file_is_another_code(tmp_path: Path) -> None:
    job = files(tmp_path, **{"job.py": "import shop"})["job.py"]
    one, same, other = (
        PyFile(place, sha256)
        for place, sha256 in (("/a/shop.zip", "1"), ("s3://b/shop.zip", "1"), ("/a/shop.zip", "2"))
    )
    assert code_of(job, [one]) == code_of(job, [same]) != code_of(job, [other]) != code_of(job)


@pytest.mark.parametrize("code", ["0", "'usage: job.py FILE'"])
def test_an_application_that_ends_its_process_does_not_end_ours(tmp_path: Path, code: str) -> None:
    file = files(tmp_path, **{"ends_itself.py": f"import sys\nsys.exit({code})\n"})["ends_itself.py"]
    with pytest.raises(UserError, match=r"ends_itself\.py:2: the application does not load: .*SystemExit"):
        load(file, "graph")


MISTAKES = {
    "shape": ('fs.tumbling("1 min")', "size='1 min'"),
    "join": (
        'left.join(left, on="k", within=("-5s", "5s"), how="lef")',
        "how='lef' is none of inner, left, full",
    ),
    "condition": ('left.filter(fs.field("k") > 3 and fs.field("k") < 5)', "use &, | and ~"),
    "record": ('left.map(fs.record(Sale, "k"))', "the fields of the class are shop"),
    "field": ('graph.source("in", Sale).window(fs.tumbling("1m"), key="shp")', "did you mean 'shop'?"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_graph_is_told_with_its_line_once(tmp_path: Path, name: str) -> None:
    line, message = MISTAKES[name]
    begin = (
        'import flamestream as fs\ngraph = fs.Graph("g")\nleft = graph.source("left", at="at", unit="s")\n'
    )
    sale = "@fs.event\nclass Sale:\n    shop: str\n"
    file = files(tmp_path, **{f"mistaken_{name}.py": f"{begin}{sale}def made():\n    {line}\nmade()\n"})
    with pytest.raises(UserError) as refused:
        load(file[f"mistaken_{name}.py"], "graph")
    place = f"mistaken_{name}.py:8: "
    assert str(refused.value).startswith(place) and message in str(refused.value)
    assert str(refused.value).count(place) == 1
