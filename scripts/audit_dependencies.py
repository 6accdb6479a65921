"""Which vulnerabilities are known of what the product is made of: `make audit-dependencies`, or of any
CycloneDX list, as the image's:

    python scripts/audit_dependencies.py sbom.cdx.json

One question to OSV, which has the databases that pip-audit (PyPA) and cargo-audit (RustSec) look into, and
Maven's and Debian's besides. A line each: the vulnerability, and the package it is in. What it means for
FlameStream is for people to find out (SECURITY.md).

Exit code 0: nothing is known of any package. 1: something is. 7: nobody could be asked, so nothing is proved.
Keeps: an answer that leaves packages out is none. Does not: send anything but names and versions.
"""

import argparse
import http.client
import json
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

OSV: Final = "https://api.osv.dev/v1/querybatch"
A_QUESTION: Final = 1000
"""Packages: OSV's limit."""
FOUND, UNPROVED = 1, 7


class NoAnswer(Exception):
    """Nothing is known of anything."""


def packages(components: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The package URLs, of what is packed inside others too."""
    for component in components:
        yield component["purl"]
        yield from packages(component.get("components", ()))


def known(purls: list[str], url: str) -> Iterator[tuple[str, str]]:
    """Vulnerability and package. Raises NoAnswer."""
    for start in range(0, len(purls), A_QUESTION):
        asked = purls[start : start + A_QUESTION]
        results = _ask({"queries": [{"package": {"purl": purl}} for purl in asked]}, url)
        if len(results) != len(asked):
            raise NoAnswer(f"{url} was asked about {len(asked)} packages and answered about {len(results)}")
        for purl, result in zip(asked, results, strict=True):
            yield from ((found["id"], purl) for found in result.get("vulns", ()))


def _ask(question: dict[str, Any], url: str) -> list[dict[str, Any]]:
    request = urllib.request.Request(url, json.dumps(question).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            results: list[dict[str, Any]] = json.load(answer)["results"]
    except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException) as error:
        raise NoAnswer(f"{url} gives no answer: {error}") from error
    return results


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sbom", type=Path)
    parser.add_argument("--url", default=OSV, help="of a mirror of OSV")
    options = parser.parse_args(arguments)
    purls = sorted(set(packages(json.loads(options.sbom.read_text())["components"])))
    try:
        found = sorted(known(purls, options.url))
    except NoAnswer as error:
        print(f"nothing is proved: {error}", file=sys.stderr)
        return UNPROVED
    for vulnerability, purl in found:
        print(f"{vulnerability}  {purl}")
    print(f"{len(found)} known vulnerabilities in {len(purls)} packages")
    return FOUND if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
