"""The bill of materials of the image, as CycloneDX on standard output: made in the image as it is built, and
by `make sbom`.

What it names: the Python packages that requirements/image.txt pins, the jars of PySpark that image/jars.txt
keeps, with what is packed inside them, the crates of native/Cargo.lock, and the Debian packages of the
machine it runs on, if `--debian` asks for them. Each has a package URL, by which databases of vulnerabilities
know it, and a hash where one is known for what was installed.

Keeps: equal input gives equal bytes, so two images can be compared. Does not: look into wheels and crates for
the C libraries that they bring (librdkafka, OpenSSL of psycopg, mimalloc), or ask anybody anything. Needs
what the image has: its last step has no installer. Source: CycloneDX 1.6; the package URL specification.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyspark
from select_jars import chosen

import flamestream

Component = dict[str, Any]


def component(
    kind: str, name: str, version: str, *, group: str = "", qualifiers: str = "", **more: Any
) -> Component:
    """One line of the bill; `kind` is the package URL's."""
    parts = [quote(part, safe=".-_~") for part in (kind, group, name) if part]
    purl = f"pkg:{'/'.join(parts)}@{quote(version, safe='.-_~')}{qualifiers}"
    return {
        "type": "library",
        **({"group": group} if group else {}),
        "name": name,
        "version": version,
        "purl": purl,
        **more,
    }


def packages(pins: Path, site: Path) -> Iterator[Component]:
    """Python's: what is pinned, with the licence that the installed package names."""
    licences = {
        _normal(found.name): found.metadata.get("License-Expression")
        for found in distributions(path=[str(site)])
    }
    for name, version in re.findall(
        r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;\\]+)", pins.read_text(), re.MULTILINE
    ):
        licence = licences.get(_normal(name))
        yield component(
            "pypi", _normal(name), version, **({"licenses": [{"expression": licence}]} if licence else {})
        )


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def jars(list_file: Path, folder: Path) -> Iterator[Component]:
    """Spark's, each with the libraries that are packed inside it."""
    for jar, group in chosen(list_file, folder).items():
        inside = sorted(_coordinates(jar))
        own = next((found for found in inside if jar.stem.startswith(f"{found[1]}-{found[2]}")), None)
        if own is None:
            name, version = re.fullmatch(r"(.+?)-(\d.*)", jar.stem).groups()  # type: ignore[union-attr]
            own = (group, name, version)
        if not own[0]:
            sys.exit(f"{jar.name} does not say its Maven group: say it in {list_file}")
        packed = [
            component("maven", name, version, group=group)
            for group, name, version in inside
            if (group, name, version) != own
        ]
        digest = hashlib.sha256(jar.read_bytes()).hexdigest()
        yield component(
            "maven",
            own[1],
            own[2],
            group=own[0],
            hashes=[_sha256(digest)],
            **({"components": packed} if packed else {}),
        )


def _coordinates(jar: Path) -> set[tuple[str, str, str]]:
    """Group, artifact and version of everything that Maven has packed into `jar`."""
    found = set()
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"META-INF/maven/.+/pom\.properties", name):
                said = dict(
                    re.findall(
                        r"^(groupId|artifactId|version)\s*=\s*(\S+)",
                        archive.read(name).decode(),
                        re.MULTILINE,
                    )
                )
                found.add((said["groupId"], said["artifactId"], said["version"]))
    return found


def crates(lock: Path) -> Iterator[Component]:
    """The native kernel's, with the hashes that Cargo checks."""
    for crate in tomllib.loads(lock.read_text())["package"]:
        if "source" in crate:
            yield component("cargo", crate["name"], crate["version"], hashes=[_sha256(crate["checksum"])])


def debian() -> Iterator[Component]:
    """The machine's own packages."""
    listed = subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${Architecture}\n"],
        capture_output=True,
        text=True,
        check=True,
    )
    for name, version, architecture in map(str.split, listed.stdout.splitlines()):
        yield component("deb", name, version, group="debian", qualifiers=f"?arch={architecture}")


def _sha256(digest: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": digest}


def bill(version: str, components: Iterable[Component]) -> dict[str, Any]:
    """The whole document; each package once."""
    found = {each["purl"]: {"bom-ref": each["purl"], **each} for each in components}
    ours = {**component("pypi", "flamestream", version), "type": "application"}
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": ours},
        "components": [found[purl] for purl in sorted(found)],
    }  # fmt: skip


def main() -> None:
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pins", type=Path, default=here.parent / "requirements" / "image.txt")
    parser.add_argument("--crates", type=Path, default=here.parent / "native" / "Cargo.lock")
    parser.add_argument("--jars", type=Path, default=here / "jars.txt")
    parser.add_argument("--debian", action="store_true", help="with the packages of this machine")
    given = parser.parse_args()
    spark = Path(pyspark.__file__).parent
    python, java = packages(given.pins, spark.parent), jars(given.jars, spark / "jars")
    found = bill(
        flamestream.__version__, [*python, *java, *crates(given.crates), *(debian() if given.debian else [])]
    )
    sys.stdout.write(f"{json.dumps(found, indent=1)}\n")


if __name__ == "__main__":
    main()
