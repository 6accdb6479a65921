"""Build the container image, and lay beside it what it is made of (SBOM) and how it was made (provenance).

The builder is docker, with buildx or its own BuildKit, else buildah. Needs a Python >= 3.11 with nothing
beside its standard library.

    python scripts/image.py --tag flamestream:0.1.0
    python scripts/image.py --tag flamestream:0.1.0 --platforms linux/amd64,linux/arm64
                                                # both, as an OCI archive; needs buildx

Keeps: the files beside it name the image by its digest. Does not: push or sign (`make sign`).
Source: SLSA provenance 1.0, as an in-toto statement 1.0; CycloneDX for the SBOM, which the image itself has
too.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MATERIALS = ("Dockerfile", "requirements/image.txt", "image/jars.txt", "native/Cargo.lock")
"""What says which parts of others are taken, and by which hashes."""


class ImageError(Exception):
    """No image; the message says what to do."""


@dataclass(frozen=True)
class Asked:
    """What is to be built."""

    tag: str
    base: str
    platforms: str
    out: Path
    more: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of the files beside it."""
        return re.sub(r"[^\w.]+", "-", self.tag.rpartition("/")[2])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tag", required=True)
    parser.add_argument("--base", default="", help="the image below; default: the Dockerfile's")
    parser.add_argument(
        "--platforms",
        default="",
        help="several, with commas: an OCI archive instead of an image that is loaded",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    given, more = parser.parse_known_args()
    try:
        make(Asked(given.tag, given.base, given.platforms, given.out.absolute(), tuple(more)))
    except ImageError as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    return 0


def make(asked: Asked) -> None:
    """The image and the files beside it."""
    builder = found_builder(several=bool(asked.platforms))
    asked.out.mkdir(parents=True, exist_ok=True)
    digest, began = asked.out / f"{asked.name}.digest", datetime.now(UTC)
    run(*image_command(builder, asked, digest))
    sbom = asked.out / f"{asked.name}.sbom"
    run(*builder, *arguments(asked), "--target", "sbom", "--output", f"type=local,dest={sbom}", ".")
    statement = provenance(asked, digest.read_text().strip(), (began, datetime.now(UTC)))
    (asked.out / f"{asked.name}.provenance.json").write_text(json.dumps(statement, indent=1) + "\n")
    print(f"image: {asked.tag}; what it is made of, and how, is in {asked.out}/{asked.name}.*")


def found_builder(*, several: bool) -> list[str]:
    """The words that begin a build. Several platforms are buildx's alone."""
    docker = shutil.which("docker")
    if (
        docker
        and subprocess.run([docker, "buildx", "version"], capture_output=True, check=False).returncode == 0
    ):
        return ["docker", "buildx", "build"]
    if several:
        raise ImageError(
            "several platforms need docker with buildx (on Debian: docker-buildx): install it, "
            "or build one at a time"
        )
    if shutil.which("buildah"):  # before docker's old builder, which newer ones refuse
        return ["buildah", "build"]
    if docker:
        return ["docker", "build"]
    raise ImageError("there is neither docker nor buildah: install one of them")


def arguments(asked: Asked) -> list[str]:
    """What every build of this image is told."""
    said = {"REVISION": revision(), **({"BASE": asked.base} if asked.base else {})}
    words = [word for name, value in said.items() for word in ("--build-arg", f"{name}={value}")]
    return [*words, *(["--platform", asked.platforms] if asked.platforms else []), *asked.more]


def image_command(builder: list[str], asked: Asked, digest: Path) -> list[str]:
    """The build of the image itself; its digest is left in a file."""
    loaded = ["--load"] if "buildx" in builder else []
    where = ["--output", f"type=oci,dest={asked.out / asked.name}.oci.tar"] if asked.platforms else loaded
    return [*builder, *arguments(asked), "--tag", asked.tag, "--iidfile", str(digest), *where, "."]


def revision() -> str:
    """The commit, and whether there is more than it has."""
    said = subprocess.run(
        ["git", "describe", "--always", "--abbrev=40", "--dirty"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.strip() or "unknown"


def provenance(asked: Asked, digest: str, when: tuple[datetime, datetime]) -> dict[str, Any]:
    """How the image was made, for who checks it (cosign, slsa-verifier)."""
    base = asked.base or re.findall(r"^ARG BASE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)[0]
    below, _, below_digest = base.partition("@sha256:")
    images = [{"uri": below, **({"digest": {"sha256": below_digest}} if below_digest else {})}]
    files = [
        {"uri": name, "digest": {"sha256": hashlib.sha256((ROOT / name).read_bytes()).hexdigest()}}
        for name in MATERIALS
    ]
    began, ended = (moment.isoformat(timespec="seconds") for moment in when)
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": asked.tag, "digest": {"sha256": digest.removeprefix("sha256:")}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://flamestream.dev/make-image/v1",
                "externalParameters": {"tag": asked.tag, "base": base, "platforms": asked.platforms},
                "resolvedDependencies": [
                    {"uri": "git", "digest": {"gitCommit": revision()}},
                    *images,
                    *files,
                ],
            },
            "runDetails": {
                "builder": {"id": "https://flamestream.dev/make-image"},
                "metadata": {"startedOn": began, "finishedOn": ended},
            },
        },
    }


def run(*command: str) -> None:
    """A step, whose output stays visible. Raises ImageError."""
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "DOCKER_BUILDKIT": "1"}, check=False)
    if done.returncode:
        raise ImageError(
            f"`{' '.join(command)}` failed with exit code {done.returncode}; what it printed is above."
        )


if __name__ == "__main__":
    sys.exit(main())
