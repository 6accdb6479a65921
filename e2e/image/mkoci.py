"""Packs tars as the layers of an OCI image, in a tar that containerd imports: no registry, no daemon. Equal
layers give equal bytes."""

import argparse
import hashlib
import io
import json
import os
import tarfile
import tempfile
from pathlib import Path
from typing import Any

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TYPE = "application/vnd.oci.image.{}"


class Layout:
    """The blobs of an image layout."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.blobs: dict[str, Path] = {}

    def add(self, media_type: str, file: Path) -> dict[str, Any]:
        """A descriptor of `file`."""
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        self.blobs[digest] = file
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": file.stat().st_size}

    def add_json(self, media_type: str, value: Any) -> dict[str, Any]:
        """A descriptor of `value`."""
        file = self._folder / f"blob-{len(self.blobs)}.json"
        file.write_text(json.dumps(value))
        return self.add(media_type, file)


def _named(name: str) -> dict[str, str]:
    return {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}


def pack(layers: list[Path], name: str, out: Path, architecture: str, config: dict[str, Any]) -> None:
    """Write `out`, whole or not at all."""
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        layout = Layout(Path(folder))
        entries = [layout.add(_TYPE.format("layer.v1.tar"), layer) for layer in layers]
        image = {
            "architecture": architecture, "os": "linux", "created": "1970-01-01T00:00:00Z", "config": config,
            "rootfs": {"type": "layers", "diff_ids": [entry["digest"] for entry in entries]},
        }  # fmt: skip
        manifest_type = _TYPE.format("manifest.v1+json")
        described = layout.add_json(_TYPE.format("config.v1+json"), image)
        entry = layout.add_json(
            manifest_type,
            {"schemaVersion": 2, "mediaType": manifest_type, "config": described, "layers": entries},
        )
        entry["platform"] = {"architecture": architecture, "os": "linux"}
        named = [entry | {"annotations": _named(each)} for each in name.split(",")]
        part = Path(folder) / "image.tar"
        _write(
            part,
            layout,
            {
                "oci-layout": {"imageLayoutVersion": "1.0.0"},
                "index.json": {"schemaVersion": 2, "manifests": named},
            },
        )
        os.replace(part, out)


def _write(part: Path, layout: Layout, heads: dict[str, Any]) -> None:
    with tarfile.open(part, "w") as archive:
        for name, value in heads.items():
            data = json.dumps(value).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for digest, file in layout.blobs.items():
            archive.add(file, f"blobs/sha256/{digest}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "name", help="full name, like localhost/app:1; several for the same content: with commas"
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--layer", type=Path, action="append", required=True, help="a tar; the lowest first")
    parser.add_argument("--architecture", default="amd64", help="the processor, as images have it")
    parser.add_argument("--entrypoint", default="", help="words, separated by commas")
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--workdir", default="/")
    parser.add_argument("--user", default="")
    given = parser.parse_args()
    entrypoint = given.entrypoint.split(",") if given.entrypoint else []
    pack(given.layer, given.name, given.out.absolute(), given.architecture, {
        "Env": [PATH, *given.env], "WorkingDir": given.workdir, "User": given.user, "Entrypoint": entrypoint,
    })  # fmt: skip


if __name__ == "__main__":
    main()
