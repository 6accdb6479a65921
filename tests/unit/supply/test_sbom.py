"""The image's bill of materials names every package that is pinned, and a reader of CycloneDX takes it."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.model.bom import Bom

ROOT = Path(__file__).parents[3]


def bill(*options: object) -> dict[str, Any]:
    """What the command says."""
    command = [sys.executable, "image/sbom.py", *map(str, options)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def ours() -> dict[str, Any]:
    return bill()


def names(found: dict[str, Any], kind: str) -> set[str]:
    return {
        each["purl"].partition("?")[0]
        for each in found["components"]
        if each["purl"].startswith(f"pkg:{kind}/")
    }


def test_every_python_pin_is_named(ours: dict[str, Any]) -> None:
    pins = re.findall(
        r"^([\w.-]+)==(\S+) \\$", (ROOT / "requirements" / "image.txt").read_text(), re.MULTILINE
    )
    assert len(pins) > 50
    assert names(ours, "pypi") == {f"pkg:pypi/{name}@{version}" for name, version in pins}


def test_every_crate_is_named_with_its_hash(ours: dict[str, Any]) -> None:
    locked = tomllib.loads((ROOT / "native" / "Cargo.lock").read_text())["package"]
    crates = {
        f"pkg:cargo/{crate['name']}@{crate['version']}": crate["checksum"]
        for crate in locked
        if "source" in crate
    }
    found = {
        each["purl"]: each["hashes"][0]["content"]
        for each in ours["components"]
        if each["purl"].startswith("pkg:cargo/")
    }
    assert found == crates


def test_every_jar_that_the_image_keeps_is_named_with_its_group(ours: dict[str, Any]) -> None:
    kept = [
        line
        for line in (ROOT / "image" / "jars.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    jars = [each for each in ours["components"] if each["purl"].startswith("pkg:maven/")]
    assert len(jars) == len(kept) and all(each["group"] and each["hashes"] for each in jars)
    assert "pkg:maven/org.apache.spark/spark-core_2.13@4.3.0" in names(ours, "maven")


def test_what_is_packed_into_a_jar_is_named_inside_it(ours: dict[str, Any]) -> None:
    (hadoop,) = [each for each in ours["components"] if each["name"] == "hadoop-client-runtime"]
    assert "guava" in {each["name"] for each in hadoop["components"]}


def test_others_can_read_it_and_see_the_same(ours: dict[str, Any]) -> None:
    read: Any = Bom.from_json(ours)  # type: ignore[attr-defined]
    assert {str(each.purl) for each in read.components} == {each["purl"] for each in ours["components"]}


def test_equal_input_gives_equal_bytes(ours: dict[str, Any]) -> None:
    assert bill() == ours


def test_a_pin_that_is_added_is_named(tmp_path: Path) -> None:
    (tmp_path / "pins.txt").write_text("Some_Package==1.2.3+local \\\n    --hash=sha256:00\n")
    assert names(bill("--pins", tmp_path / "pins.txt"), "pypi") == {"pkg:pypi/some-package@1.2.3%2Blocal"}


def test_a_jar_that_does_not_say_its_group_is_an_error(tmp_path: Path) -> None:
    """Nobody would find what is known of it."""
    nameless = re.sub(r"^ivy .*$", "ivy", (ROOT / "image" / "jars.txt").read_text(), flags=re.MULTILINE)
    (tmp_path / "jars.txt").write_text(nameless)
    command = [sys.executable, "image/sbom.py", "--jars", str(tmp_path / "jars.txt")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode and "ivy-2.5.3.jar does not say its Maven group" in done.stderr
