"""What the product, its image and its tests are made of is named by version and hash, and nothing is taken that is not."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
TRACKED = subprocess.run(
    ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout.split()
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
PINS = sorted((ROOT / "requirements").glob("*.txt"))


def images() -> Iterator[tuple[str, str]]:
    """Every image that is not ours: where it is named, and as what."""
    yield "Dockerfile", re.findall(r"^ARG BASE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)[0]
    values = yaml.safe_load((ROOT / "charts" / "flamestream" / "values.yaml").read_text())
    yield "values.yaml", values["s3"]["image"]


@pytest.mark.parametrize(("place", "image"), list(images()))
def test_an_image_of_others_is_named_by_digest(place: str, image: str) -> None:
    assert DIGEST.search(image), f"{place}: {image} may be another one tomorrow"


def test_no_stage_begins_with_an_image_that_is_named_elsewhere() -> None:
    assert set(re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)) == {"${BASE}"}


@pytest.mark.parametrize("file", PINS, ids=lambda file: str(file.name))
def test_every_python_package_is_pinned_by_version_and_hash(file: Path) -> None:
    whole = file.read_text().replace("\\\n", " ")
    lines = [line for line in whole.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    loose = [line.split()[0] for line in lines if not re.match(r"[\w.-]+(\[[\w,-]+\])?==\S+ .*--hash=sha256:[0-9a-f]{64}", line)]
    assert lines and not loose


def test_every_pin_is_asked_for_by_a_list_beside_it() -> None:
    assert {file.stem for file in PINS} == {file.stem for file in (ROOT / "requirements").glob("*.in")} - {"operator"}, (
        "part of image and test"
    )


def test_what_is_installed_is_compared_with_its_hashes() -> None:
    """No installer of ours takes a list without `--require-hashes`."""
    for name in ("scripts/setup.py", "image/install-python", "tests/support/installing.py"):
        text = (ROOT / name).read_text()
        assert text.count("--require-hashes") >= len(re.findall(r"requirements?/(?:image|test|go|tools)\.txt", text)) > 0 or name.endswith(
            "setup.py"
        )


def test_crates_are_the_ones_of_the_lock() -> None:
    """The lock is kept, fits the manifest, has a hash a crate, and a build that would change it fails."""
    assert "native/Cargo.lock" in TRACKED
    wanted = tomllib.loads((ROOT / "native" / "Cargo.toml").read_text())["dependencies"]
    locked = tomllib.loads((ROOT / "native" / "Cargo.lock").read_text())["package"]
    versions = {crate["name"]: crate["version"] for crate in locked}
    for name, said in wanted.items():
        version = said if isinstance(said, str) else said["version"]
        assert version == f"={versions.get(name)}", f"{name}: `cargo update -p {name}` in native/"
    assert all("checksum" in crate for crate in locked if "source" in crate)
    assert [crate["name"] for crate in locked if "source" not in crate] == ["flamestream-kernel"], "all others come from the registry"
    (kernel,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools-rust"]["ext-modules"]
    assert kernel["cargo-manifest-args"] == ["--locked"]


def test_jars_of_maven_have_one_version() -> None:
    for name in (name for name in TRACKED if name.endswith("pom.xml")):
        text = (ROOT / name).read_text()
        loose = [each for each in re.findall(r"<version>(.*?)</version>", text) if not re.fullmatch(r"[\w.-]+|\$\{[\w.]+\}", each)]
        assert not loose, f"{name}: {loose}"


def test_go_programs_are_built_from_sums() -> None:
    """A version of a module can be looked up anywhere; what it has to be is in a go.sum."""
    for name in (name for name in TRACKED if re.search(r"\.(py|sh)$|^e2e/[\w-]+$|^scripts/|^Makefile$", name)):
        assert not re.search(r"go install .*@v|/cmd/\w+@|@latest", (ROOT / name).read_text()), name
    for folder in {Path(name).parent for name in TRACKED if Path(name).name == "go.mod"}:
        sums = (ROOT / folder / "go.sum").read_text()
        for module, version in re.findall(
            r"^(?:require)?\s*(\S+/\S+) (v\S+)(?: // indirect)?$", (ROOT / folder / "go.mod").read_text(), re.MULTILINE
        ):
            assert f"{module} {version} h1:" in sums or f"{module} {version}/go.mod h1:" in sums, f"{folder}: {module}"
