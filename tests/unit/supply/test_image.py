"""The image has its kernel or is not made, is for the processor it is built on, and has beside it what it is
made of. No docker is needed here: the Dockerfile is read, and a stand-in takes the builder's place."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flamestream.model.kernel import WHY_NOT

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
OTHER = (ROOT / "e2e" / "image" / "build-image").read_text()
STAGES = dict(
    zip(
        re.findall(r"^FROM \S+(?: AS (\w+))?$", DOCKERFILE, re.MULTILINE),
        re.split(r"^FROM .*$", DOCKERFILE, flags=re.MULTILINE)[1:],
        strict=True,
    )
)
FINISH = (ROOT / "image" / "finish").read_text()
STAND_IN = """#!/bin/sh
echo "$0 $*" >>{log}
[ "$2" = version ] && exit {buildx}
for word; do
    case "$word" in
    type=local,dest=*) mkdir -p "${{word#type=local,dest=}}"; echo '{{}}' >"${{word#type=local,dest=}}/sbom.cdx.json" ;;
    esac
    [ "$before" = --iidfile ] && echo sha256:0123 >"$word"
    before=$word
done
exit 0
"""


def test_the_kernel_has_a_stage_of_its_own_that_nobody_may_fail() -> None:
    assert "RUN image/build-kernel /kernel" in STAGES["kernel"]
    assert "COPY --from=kernel /kernel kernel" in STAGES["packages"]
    assert "||" not in STAGES["kernel"].partition("RUN image/build-kernel")[2]


def test_the_last_step_refuses_an_image_without_it_and_no_other() -> None:
    """As it stands there, for a Python that has none, and for this one."""
    (check,) = [line for line in FINISH.splitlines() if "native kernel: {WHY_NOT}" in line]
    check = check.replace("python3", sys.executable, 1)
    hidden = check.replace("import sys;", 'import sys; sys.modules["flamestream._kernel"] = None;')
    environment = {"PYTHONPATH": str(ROOT / "runtime")}
    refused = subprocess.run(
        ["bash", "-c", hidden], env=environment, capture_output=True, text=True, check=False
    )
    assert (
        refused.returncode
        and "the image has no native kernel: this installation was built without it" in refused.stderr
    )
    taken = subprocess.run(
        ["bash", "-c", check], env=environment, capture_output=True, text=True, check=False
    )
    assert bool(taken.returncode) == bool(WHY_NOT), taken.stderr


def test_no_processor_is_named_but_as_what_old_builders_do_not_say() -> None:
    assert re.findall(r".*(?:amd64|x86_64|arm64|aarch64).*", DOCKERFILE) == [
        "ENV JAVA_HOME=/usr/lib/jvm/java-17-openjdk-${TARGETARCH:-amd64} \\"
    ]
    assert "amd64" not in OTHER


def test_both_ways_to_an_image_take_the_same_steps() -> None:
    for step in ("image/build-kernel", "image/install-python", "/opt/flamestream/finish"):
        assert step in DOCKERFILE and step in OTHER, step
    settings = re.search(r"^ENV (.*?)^COPY", DOCKERFILE, re.MULTILINE | re.DOTALL)
    assert settings
    names = set(re.findall(r"(\w+)=", settings[1]))
    assert names == set(
        re.findall(
            r'[\s"]([A-Z_]+)=', re.findall(r"^settings=\((.*?)^\)", OTHER, re.MULTILINE | re.DOTALL)[0]
        )
    )


def test_both_ways_to_an_image_take_the_same_of_debians_packages() -> None:
    """`nft` among them, which a drill's cut calls in the image alone."""
    (of_ours,) = re.findall(r"--no-install-recommends (.*) \\", STAGES["image"])
    (of_the_other,) = re.findall(r"^included=(.*)$", OTHER, re.MULTILINE)
    assert set(of_ours.split()) == set(of_the_other.split(",")) >= {"python3", "tini", "nftables"}


def test_a_developers_own_kernel_does_not_get_in() -> None:
    assert "**/_kernel*.so" in (ROOT / ".dockerignore").read_text().split()


def test_it_says_what_it_is() -> None:
    assert {"title", "licenses", "version", "revision"} <= set(
        re.findall(r"org\.opencontainers\.image\.(\w+)=", STAGES["image"])
    )


def built(
    tmp_path: Path, *options: str, buildx: int = 0, builder: str = "docker"
) -> "subprocess.CompletedProcess[str]":
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    if builder:
        (programs / builder).write_text(STAND_IN.format(log=tmp_path / "log", buildx=buildx))
        (programs / builder).chmod(0o755)
    for name in ("sh", "mkdir", "git"):
        if not (programs / name).exists():
            (programs / name).symlink_to(f"/usr/bin/{name}")
    command = [
        sys.executable,
        str(ROOT / "scripts" / "image.py"),
        "--tag",
        "here/flamestream:1",
        "--out",
        str(tmp_path / "out"),
        *options,
    ]
    return subprocess.run(command, env={"PATH": str(programs)}, capture_output=True, text=True, check=False)


def calls(tmp_path: Path) -> list[str]:
    return [line.rpartition("/bin/")[2] for line in (tmp_path / "log").read_text().splitlines()]


@pytest.mark.parametrize(
    ("builder", "buildx", "begins"),
    [("docker", 0, "docker buildx build"), ("docker", 1, "docker build"), ("buildah", 1, "buildah build")],
)
def test_each_builder_makes_the_image_and_the_files_beside_it(
    tmp_path: Path, builder: str, buildx: int, begins: str
) -> None:
    done = built(tmp_path, buildx=buildx, builder=builder)
    assert done.returncode == 0, done.stderr
    image, sbom = [call for call in calls(tmp_path) if " build " in call]
    assert image.startswith(f"{begins} ") and "--tag here/flamestream:1" in image
    assert sbom.startswith(f"{begins} ") and "--target sbom" in sbom
    assert (tmp_path / "out" / "flamestream-1.sbom" / "sbom.cdx.json").exists()
    statement = json.loads((tmp_path / "out" / "flamestream-1.provenance.json").read_text())
    assert statement["subject"] == [{"name": "here/flamestream:1", "digest": {"sha256": "0123"}}]
    named = {each["uri"] for each in statement["predicate"]["buildDefinition"]["resolvedDependencies"]}
    assert {"docker.io/library/debian:bookworm-slim", "native/Cargo.lock", "requirements/image.txt"} <= named


def test_several_platforms_become_an_archive(tmp_path: Path) -> None:
    done = built(tmp_path, "--platforms", "linux/amd64,linux/arm64")
    assert done.returncode == 0, done.stderr
    image = next(call for call in calls(tmp_path) if "--tag" in call)
    assert (
        "--platform linux/amd64,linux/arm64" in image
        and f"--output type=oci,dest={tmp_path}/out/flamestream-1.oci.tar" in image
    )


@pytest.mark.parametrize(
    ("builder", "options", "says"),
    [("", (), "neither docker nor buildah"), ("buildah", ("--platforms", "a,b"), "need docker with buildx")],
)
def test_what_cannot_be_built_is_said(
    tmp_path: Path, builder: str, options: tuple[str, ...], says: str
) -> None:
    done = built(tmp_path, *options, builder=builder)
    assert done.returncode == 1 and says in done.stderr
