"""What the product, its image and its tests are made of is named by version and hash, and nothing is taken
that is not."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
TRACKED = subprocess.run(
    ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout.splitlines()
PINS = sorted((ROOT / "requirements").glob("*.txt"))
DOCKERFILE = (ROOT / "Dockerfile").read_text()
VALUES = yaml.safe_load((ROOT / "charts" / "flamestream" / "values.yaml").read_text())
IMAGES = {
    "Dockerfile": re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE, re.MULTILINE)[0],
    "s3.image": VALUES["s3"]["image"],
}
"""Of others, by where each is named."""


@pytest.mark.parametrize("place", IMAGES)
def test_an_image_of_others_is_named_by_digest(place: str) -> None:
    assert re.search(r"@sha256:[0-9a-f]{64}$", IMAGES[place]), "it may be another one tomorrow"


def test_no_image_of_others_is_named_elsewhere() -> None:
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${BASE}", "scratch", "image"}
    templates = "".join(
        file.read_text() for file in (ROOT / "charts" / "flamestream" / "templates").glob("*.yaml")
    )
    named = set(re.findall(r"^ *(?:- )?image: (.+)", templates, re.MULTILINE))
    assert named == {
        '{{ include "flamestream.image" . }}',
        "{{ .Values.s3.image }}",
    }


@pytest.mark.parametrize("file", PINS, ids=lambda file: str(file.name))
def test_every_python_package_is_pinned_by_version_and_hash(file: Path) -> None:
    whole = file.read_text().replace("\\\n", " ")
    lines = [line for line in whole.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    loose = [
        line.split()[0]
        for line in lines
        if not re.match(r"[\w.-]+(\[[\w,-]+\])?==\S+ .*--hash=sha256:[0-9a-f]{64}", line)
    ]
    assert lines and not loose


@pytest.mark.parametrize("name", ["scripts/setup.py", "image/install-python", "tests/support/installing.py"])
def test_an_installer_compares_with_the_hashes(name: str) -> None:
    assert "--require-hashes" in (ROOT / name).read_text()


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
    assert [crate["name"] for crate in locked if "source" not in crate] == ["flamestream-kernel"], (
        "all others come from the registry"
    )
    (kernel,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools-rust"]["ext-modules"]
    assert kernel["cargo-manifest-args"] == ["--locked"]


def test_jars_of_maven_have_one_version() -> None:
    for name in (name for name in TRACKED if name.endswith("pom.xml")):
        versions = re.findall(r"<version>(.*?)</version>", (ROOT / name).read_text())
        assert versions and all(re.fullmatch(r"[\w.-]+|\$\{[\w.]+\}", each) for each in versions), name


@pytest.mark.parametrize("name", [name for name in TRACKED if Path(name).name == "go.mod"])
def test_go_programs_are_built_of_what_their_sums_have(name: str) -> None:
    text, sums = (ROOT / name).read_text(), (ROOT / name).with_name("go.sum").read_text()
    replaced = re.findall(r"^(?:replace\s+|\t)(\S+/\S+)(?: v\S+)? => (\S+) (v\S+)$", text, re.MULTILINE)
    instead = {module: (other, version) for module, other, version in replaced}
    for asked in re.findall(r"^(?:require\s+|\t)(\S+/\S+) (v\S+)(?: //.*)?$", text, re.MULTILINE):
        module, version = instead.get(asked[0], asked)
        assert f"{module} {version} h1:" in sums or f"{module} {version}/go.mod h1:" in sums, module


def test_no_go_program_is_taken_by_its_version_alone() -> None:
    asks = re.compile(r"go (?:install|run) (?:-\S+ )*\S+@")
    named = [
        name
        for name in TRACKED
        if re.search(r"\.(py|sh|md)$|^e2e/(image/)?[\w-]+$|^scripts/|^Makefile$", name)
    ]
    assert not [name for name in named if asks.search((ROOT / name).read_text())]
