"""The operator for OLM: the bundle is what the chart makes, and the library that catalogs are checked with takes it."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import helm
from support.installing import ROOT, by_go

sys.path.append(str(ROOT / "scripts"))

import olm  # from the line above

COMMITTED = ROOT / "bundle"
CSV = "manifests/flamestream.clusterserviceversion.yaml"


@cache
def made() -> dict[str, str]:
    return olm.made(olm.rendered([str(helm.binary())], olm.IMAGE), olm.IMAGE)


def committed(name: str) -> Any:
    return yaml.safe_load((COMMITTED / name).read_text())


def test_the_bundle_is_what_the_chart_makes_now() -> None:
    there = {
        str(file.relative_to(COMMITTED)): file.read_text() for file in COMMITTED.rglob("*") if file.is_file()
    }
    assert there == made(), "run `make bundle`"


def test_its_definitions_are_the_charts() -> None:
    for file in (helm.CHART / "files").glob("*.yaml"):
        definition = yaml.safe_load(file.read_text())
        assert committed(f"manifests/{definition['metadata']['name']}.crd.yaml")["spec"] == definition["spec"]


def test_whoever_chooses_the_namespaces_is_the_manager() -> None:
    """In the form of the operator's variable: names with commas, and nothing for all of them."""
    (deployment,) = committed(CSV)["spec"]["install"]["spec"]["deployments"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (watch,) = [each for each in container["env"] if each["name"] == "FLAMESTREAM_WATCH"]
    assert watch["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.annotations['olm.targetNamespaces']"}}
    assert "value" not in watch


def test_another_image_is_that_of_the_operator_of_its_jobs_and_of_the_list_of_images() -> None:
    image = "registry.example/flamestream@sha256:" + "0" * 64
    version = yaml.safe_load(olm.made(olm.rendered([str(helm.binary())], image), image)[CSV])
    (deployment,) = version["spec"]["install"]["spec"]["deployments"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (told,) = [each["value"] for each in container["env"] if each["name"] == "FLAMESTREAM_IMAGE"]
    related = version["spec"]["relatedImages"][0]["image"]
    assert {container["image"], told, related, version["metadata"]["annotations"]["containerImage"]} == {
        image
    }


def test_it_names_nothing_that_is_not_there() -> None:
    """Accounts are made by OLM; Secrets by whoever installs it, and the description names those."""
    version = committed(CSV)
    (deployment,) = version["spec"]["install"]["spec"]["deployments"]
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    secrets = [each["secret"]["secretName"] for each in volumes if "secret" in each]
    assert len(secrets) == 2 and all(f"`{each}`" in version["spec"]["description"] for each in secrets)
    samples = json.loads(version["metadata"]["annotations"]["alm-examples"])
    owned = version["spec"]["customresourcedefinitions"]["owned"]
    assert sorted(each["kind"] for each in samples) == sorted(each["kind"] for each in owned)


def validated(folder: Path) -> str:
    """What the validators of the operator framework find."""
    command = [
        str(by_go("operator-verify", "validator of bundles")),
        "manifests",
        str(folder),
        "--object_validate",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def test_the_operator_frameworks_own_validators_find_nothing() -> None:
    assert validated(COMMITTED) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("version: 0.1.0\n", "version: newest\n"),
        ("kind: FlameStreamJob\n      version", "kind: FlameStreamJobs\n      version"),
        ('"kind": "FlameStreamDrill"', '"kind": "Drill"'),
    ],
)
def test_those_validators_find_what_is_wrong(tmp_path: Path, right: str, wrong: str) -> None:
    for name, text in made().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert right in made()[CSV]
    (tmp_path / CSV).write_text(made()[CSV].replace(right, wrong))
    assert validated(tmp_path)
