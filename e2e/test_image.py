"""The image, as pods use it: the class archives fit what is in it, and it runs as nobody in particular on a
read-only root."""

import json
import uuid
from urllib.parse import unquote

import pytest

from e2e.support.job import is_over, restricted_pod
from e2e.support.kube import Kube

_JAVA = (
    "timeout 20 $JAVA_HOME/bin/java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
    "-Xshare:on -XX:SharedArchiveFile={archive} -Xlog:class+load:file=/tmp/log "
    '-cp "$(cat /opt/flamestream/class-path)" {main} >/dev/null 2>&1; '
    "grep -c 'org.apache.spark.*shared objects file (top)' /tmp/log"
)
_LISTED = (
    "import json; listed = json.load(open('/opt/flamestream/sbom.cdx.json'))['components'];"
    "print(json.dumps([each['purl'] for each in listed]))"
)
_INSTALLED = """
import json, re, pyspark
from importlib.metadata import distributions
from pathlib import Path
found = distributions(path=[str(Path(pyspark.__file__).parents[1])])
print(json.dumps([f"pkg:pypi/{re.sub('[-_.]+', '-', each.name).lower()}@{each.version}" for each in found]))
"""


def printed(kube: Kube, *command: str) -> str:
    """What `command` prints in a restricted pod of the image."""
    name = f"image-{uuid.uuid4().hex[:6]}"
    kube.apply(
        restricted_pod(name, *command, mounts={"tmp": ({"emptyDir": {}}, "/tmp")}, restartPolicy="Never")
    )
    try:
        kube.wait("Pod", name, is_over, 60)
        return kube.logs(name)
    finally:
        kube.delete("Pod", name, within=0)


@pytest.mark.parametrize(
    ("archive", "main"),
    [
        ("/opt/flamestream/driver.jsa", "org.apache.spark.api.python.PythonGatewayServer"),
        (
            "/opt/flamestream/executor.jsa",
            "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend --help",
        ),
    ],
    ids=["driver", "executor"],
)
def test_the_class_archives_are_used(kube: Kube, namespace: str, archive: str, main: str) -> None:
    found = printed(kube, "sh", "-c", _JAVA.format(archive=archive, main=main) + " </dev/null")
    assert int(found.strip() or 0) > 5, f"classes of Spark that came out of the archive: {found!r}"


def test_nothing_runs_as_root(kube: Kube, namespace: str) -> None:
    assert printed(kube, "id", "-u").strip() == "185"


def test_byte_code_is_there_and_is_not_compared_with_its_source(kube: Kube, namespace: str) -> None:
    code = (
        "import importlib.util as u, json; d = open(u.cache_from_source(u.find_spec('{0}').origin), "
        "'rb').read(8); print(json.dumps(d[4]))"
    )
    for module in ("flamestream.core.worker.worker", "pyspark.worker", "msgspec", "argparse"):
        assert json.loads(printed(kube, "python3", "-c", code.format(module))) == 1, (
            f"{module}: a hash that is never checked"
        )


def test_the_bill_of_materials_names_what_is_in_it(kube: Kube, namespace: str) -> None:
    listed = set(json.loads(printed(kube, "python3", "-c", _LISTED)))
    python = json.loads(printed(kube, "python3", "-c", _INSTALLED))
    debian = printed(
        kube, "dpkg-query", "--show", "--showformat", "pkg:deb/debian/${Package}@${Version}\n"
    ).split()
    assert {purl for purl in listed if purl.startswith("pkg:pypi/")} == set(python)
    assert {unquote(purl).partition("?")[0] for purl in listed if purl.startswith("pkg:deb/")} == set(debian)
