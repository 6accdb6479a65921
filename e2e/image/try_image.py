"""What an image does on its own processor, which an emulator stands for where it is another than this machine's: its
version, and a short job on its kernel, whose output its audit compares with the sequential reference, byte for byte.

    python3 e2e/image/try_image.py IMAGE.tar        # as root; an image of e2e/image/build-image

Keeps: everything runs by the image's entrypoint, as its user. Does not: run Spark, or need a container runtime. The one
JVM is that of the ZooKeeper which a job of one machine brings along.
"""

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

APPLICATION = """
import flamestream as fs
from dataclasses import dataclass


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Sale:
    shop: str
    cents: int


def parsed(line: str) -> Sale:
    shop, cents = line.split(",")
    return Sale(shop, int(cents))


graph = fs.Graph("sales")
sales = graph.source("lines").map(parsed)
totals = sales.reduce(key=fs.field("shop"), combine=fs.total("cents"), emit=fs.record(Sale, "shop", cents=fs.state))
totals.sink("totals", key=fs.field("shop"))
sales.sink("sales", key=fs.field("shop"))
"""
SPEC: dict[str, Any] = {
    "sources": {"lines": {"files": {"path": "in", "records": "lines"}}},
    "sinks": {name: {"files": {"path": name}} for name in ("totals", "sales")},
    "workers": {"replicas": 2, "slots": 16},
    "checkpoint": {"interval": "500ms", "store": "snapshots"},
}
LINES = 500
LOOK = """
import platform, flamestream
from flamestream.model.kernel import WHY_NOT
print(platform.machine(), flamestream.__version__, WHY_NOT or "kernel")
"""
CACHE = "FLAMESTREAM_CACHE=/tmp/cache"
"""An image that was built in an emulator has no class archives, and no folder for them."""
COMMAND = ("python3", "-m", "flamestream.cli.main")


class Image:
    """An image, unpacked."""

    def __init__(self, archive: Path, root: Path) -> None:
        self._root, self._archive = root, archive
        with tarfile.open(archive) as self._blobs:
            index = json.load(self._file("index.json"))
            manifest = self._json(index["manifests"][0])
            self.config = self._json(manifest["config"])
            for layer in manifest["layers"]:
                command = ["tar", "-C", str(root), "-xf", "-"]
                with subprocess.Popen(command, stdin=subprocess.PIPE) as unpacking:
                    assert unpacking.stdin is not None
                    blob = self._blob(layer)
                    while data := blob.read(1 << 20):
                        unpacking.stdin.write(data)
                assert unpacking.returncode == 0, "a layer cannot be unpacked"

    def run(self, *words: str, folder: str = "/tmp") -> str:
        """What a container says that is started with `words`. Ends with an error if it does."""
        config = self.config["config"]
        inside = ["env", "-i", "-C", folder, *config["Env"], CACHE, *config["Entrypoint"], *words]
        command = ["chroot", f"--userspec={config['User']}", str(self._root), *inside]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def _file(self, name: str) -> Any:
        return self._blobs.extractfile(name)

    def _blob(self, described: dict[str, Any]) -> Any:
        return self._file(f"blobs/sha256/{described['digest'].removeprefix('sha256:')}")

    def _json(self, described: dict[str, Any]) -> Any:
        return json.load(self._blob(described))


def tried(image: Image, root: Path) -> dict[str, Any]:
    """What it said."""
    folder = root / "tmp" / "try"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "0.txt").write_text("".join(f"shop{n % 7},{n}\n" for n in range(LINES)))
    (folder / "sales.py").write_text(APPLICATION)
    spec = {"application": {"file": "sales.py", "graph": "graph"}, **SPEC}
    document = {
        "apiVersion": "flamestream.dev/v1alpha1",
        "kind": "FlameStreamJob",
        "metadata": {"name": "try"},
    }
    (folder / "job.yaml").write_text(json.dumps(document | {"spec": spec}))
    subprocess.run(["chown", "-R", image.config["config"]["User"], str(folder)], check=True)
    processor, version, kernel = image.run("python3", "-c", LOOK).split(maxsplit=2)
    ran = json.loads(image.run(*COMMAND, "run", "job.yaml", "--no-spark", "--json", folder="/tmp/try"))
    audit = json.loads(image.run(*COMMAND, "audit", "job.yaml", "--json", folder="/tmp/try"))
    return {
        "architecture": image.config["architecture"], "processor": processor, "kernel": kernel, "version": version,
        "outcome": ran["outcome"], "records": audit["records"], "delivered": audit["verdict"]["delivered"],
        "clean": audit["clean"],
    }  # fmt: skip


def main() -> int:
    with tempfile.TemporaryDirectory(dir=Path(sys.argv[1]).absolute().parent) as place:
        root = Path(place)
        root.chmod(0o755)
        image = Image(Path(sys.argv[1]), root)
        subprocess.run(["mount", "-t", "proc", "proc", str(root / "proc")], check=True)
        try:
            found = tried(image, root)
        finally:
            subprocess.run(["umount", str(root / "proc")], check=True)
    sys.stdout.write(f"{json.dumps(found)}\n")
    good = found["kernel"] == "kernel" and found["clean"] and found["delivered"] > LINES
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
