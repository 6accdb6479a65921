"""The operator for OpenShift's and others' lifecycle manager (OLM), as a bundle: `make bundle` writes `bundle/`.

The chart is rendered, and what it makes of Deployment, rights and Services becomes a ClusterServiceVersion and what
stands beside it. So nothing is said twice: a test makes the bundle again and compares.

Keeps: the operator has the pod, and the rules, that the chart gives it. Does not: bring a ZooKeeper, admission
policies or the operator's own NetworkPolicy, which a bundle cannot have (docs/operations/kubernetes.md).
"""

import argparse
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

Object = dict[str, Any]

ROOT: Final = Path(__file__).resolve().parent.parent
CHART: Final = ROOT / "charts" / "flamestream"
NAME: Final = "flamestream"
IMAGE: Final = "flamestream:0.1.0"
NAMESPACES: Final = "metadata.annotations['olm.targetNamespaces']"
"""Where OLM writes which namespaces are watched, in the form of FLAMESTREAM_WATCH."""
VALUES: Final[Object] = {
    "zookeeper": {
        "servers": "zookeeper.zookeeper.svc:2281",
        "loginSecret": f"{NAME}-zookeeper",
        "tls": {"secret": f"{NAME}-zookeeper-tls"},
    },
    "admissionPolicy": {"enabled": False},
}
"""A ZooKeeper of one's own: a Subscription's `config.env` names another address. Jobs and pods are judged by the
operator alone: a bundle cannot bring a policy."""
MODES: Final = ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
BESIDE: Final = ("Service", "PodDisruptionBudget")
"""Kinds of the chart that a bundle takes as they are."""
SAMPLES: Final[Object] = {
    "FlameStreamSnapshot": {"metadata": {"name": "before"}, "spec": {"job": "inverted-index"}},
    "FlameStreamDrill": {
        "metadata": {"name": "kill-workers"},
        "spec": {"job": "inverted-index", "fault": {"target": "worker"}, "times": 3},
    },
}
DESCRIPTION: Final = """\
FlameStream runs streaming jobs as graphs of pure Python functions on Spark. Every input affects the output exactly
once, through any crash, and a result leaves within milliseconds.

Before it is installed:

1. A ZooKeeper ensemble. A Subscription names it in `config.env`, as FLAMESTREAM_ZOOKEEPER: `host:port,host:port`.
2. In the operator's namespace the Secret `flamestream-zookeeper` (`login: USER:PASSWORD`) and the Secret
   `flamestream-zookeeper-tls` (`ca.crt`: who has signed the servers' certificates).

No job runs in the operator's own namespace.
"""


def rendered(helm: Sequence[str], image: str) -> list[Object]:
    """The chart's objects, with this image. Raises CalledProcessError."""
    repository, _, tag = image.rpartition(":")
    values = json.dumps({"image": {"repository": repository, "tag": tag}, **VALUES})
    command = [
        *helm,
        "template",
        NAME,
        str(CHART),
        "--namespace",
        NAME,
        "--kube-version",
        "1.34.0",
        "--values",
        "-",
    ]
    done = subprocess.run(command, input=values, capture_output=True, text=True, check=True)
    return [thing for thing in yaml.safe_load_all(done.stdout) if thing is not None]


def made(things: list[Object], image: str) -> dict[str, str]:
    """The bundle: texts by path."""
    definitions = [yaml.safe_load(file.read_text()) for file in sorted((ROOT / "crds").glob("*.yaml"))]
    files = {f"{each['metadata']['name']}.crd.yaml": each for each in definitions}
    files |= {
        f"{each['metadata']['name']}.{each['kind'].lower()}.yaml": _unreleased(each)
        for each in things
        if each["kind"] in BESIDE
    }
    files[f"{NAME}.clusterserviceversion.yaml"] = version_of(things, definitions, image)
    labels = {
        "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
        "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
        "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
        "operators.operatorframework.io.bundle.package.v1": NAME,
        "operators.operatorframework.io.bundle.channels.v1": "alpha",
        "operators.operatorframework.io.bundle.channel.default.v1": "alpha",
    }
    lines = ["FROM scratch", *(f"LABEL {name}={value}" for name, value in labels.items())]
    lines += ["COPY manifests /manifests/", "COPY metadata /metadata/"]
    return {
        **{f"manifests/{name}": _text(thing) for name, thing in sorted(files.items())},
        "metadata/annotations.yaml": _text({"annotations": labels}),
        "Dockerfile": "\n".join(lines) + "\n",
    }


def version_of(things: list[Object], definitions: list[Object], image: str) -> Object:
    """The ClusterServiceVersion."""
    (chart,) = yaml.safe_load_all((CHART / "Chart.yaml").read_text())
    (deployment,) = [each for each in things if each["kind"] == "Deployment"]
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    rules = {
        each["metadata"]["name"]: each["rules"] for each in things if each["kind"] in ("Role", "ClusterRole")
    }
    samples = [sample_of(each["spec"]["names"]["kind"]) for each in definitions]
    install = {
        "deployments": [{"name": deployment["metadata"]["name"], "spec": _by_olm(deployment["spec"])}],
        # those in the namespaces that are watched, and in its own
        "permissions": [{"serviceAccountName": account, "rules": rules[account] + rules[f"{account}-own"]}],
        "clusterPermissions": [{"serviceAccountName": account, "rules": rules[f"{account}-sees"]}],
    }
    spec = {
        "displayName": "FlameStream", "description": DESCRIPTION, "version": chart["version"], "maturity": "alpha",
        "minKubeVersion": chart["kubeVersion"].removeprefix(">=").removesuffix("-0"),
        "provider": {"name": "FlameStream's authors"}, "keywords": ["streaming", "spark", "exactly once"],
        "installModes": [{"type": kind, "supported": kind != "OwnNamespace"} for kind in MODES],
        "customresourcedefinitions": {"owned": [owned(each) for each in definitions]},
        "install": {"strategy": "deployment", "spec": install},
        "relatedImages": [{"name": NAME, "image": image}],
    }  # fmt: skip
    notes = {
        "alm-examples": json.dumps(samples, indent=2), "capabilities": "Deep Insights", "containerImage": image,
        "categories": "Streaming & Messaging", "description": chart["description"].partition(";")[0],
    }  # fmt: skip
    return {
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": f"{NAME}.v{chart['version']}", "annotations": notes}, "spec": spec,
    }  # fmt: skip


def owned(definition: Object) -> Object:
    """How the manager lists a kind."""
    names, (version,) = definition["spec"]["names"], definition["spec"]["versions"]
    text = version["schema"]["openAPIV3Schema"]["description"]
    return {
        "name": definition["metadata"]["name"], "kind": names["kind"], "version": version["name"],
        "displayName": names["kind"], "description": text,
    }  # fmt: skip


def sample_of(kind: str) -> Object:
    """An object of a kind, as users are shown it."""
    shown = yaml.safe_load_all((ROOT / "examples" / "cluster" / "inverted_index.yaml").read_text())
    known = {each["kind"]: each for each in shown} | SAMPLES
    return {"apiVersion": "flamestream.dev/v1alpha1", "kind": kind, **known[kind]}


def _by_olm(spec: Object) -> Object:
    """A Deployment whose pods take from the manager which namespaces they watch."""
    (container,) = spec["template"]["spec"]["containers"]
    watch = {"name": "FLAMESTREAM_WATCH", "valueFrom": {"fieldRef": {"fieldPath": NAMESPACES}}}
    container["env"] = [watch if each["name"] == watch["name"] else each for each in container["env"]]
    spec["template"]["metadata"] = _unreleased(spec["template"])["metadata"]
    return spec


def _unreleased(thing: Object) -> Object:
    """Without what says that helm has made it."""
    strange = ("helm.sh/chart", "app.kubernetes.io/managed-by")
    meta = thing["metadata"]
    kept = {name: value for name, value in meta["labels"].items() if name not in strange}
    return {**thing, "metadata": {**meta, "labels": kept}}


class _Dumper(yaml.SafeDumper):
    """Texts of several lines are written as such."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, "|" if "\n" in text else None
    ),
)


def _text(thing: Object) -> str:
    return yaml.dump(thing, Dumper=_Dumper, sort_keys=False, width=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--image", default=IMAGE, help="the operator's image, where the cluster pulls it")
    parser.add_argument("--out", type=Path, default=ROOT / "bundle")
    asked = parser.parse_args()
    module = ROOT / "tests" / "support" / "go" / "helm"
    helm = ["helm"] if shutil.which("helm") else ["go", "-C", str(module), "tool", "helm"]
    shutil.rmtree(asked.out, ignore_errors=True)
    for name, text in made(rendered(helm, asked.image), asked.image).items():
        (asked.out / name).parent.mkdir(parents=True, exist_ok=True)
        (asked.out / name).write_text(text)


if __name__ == "__main__":
    main()
