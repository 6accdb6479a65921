"""Where a job's files are, from its manifest, for readers that run nothing: the store, the sinks' folders,
the committed epoch.

Keeps: relative places start at the manifest, as for every other command. Does not: check a manifest
(`flamestream validate` does).
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from flamestream.connectors import sinks
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.job import py_files
from flamestream.job.application import load
from flamestream.job.located import parse
from flamestream.job.manifest import STRONG
from flamestream.job.status import JobStatus
from flamestream.model.decoding import from_json
from flamestream.model.errors import Corrupt, ManifestError, UserError
from flamestream.model.graph import Graph
from flamestream.store.places import store_from
from flamestream.store.snapshot_index import index_of


@dataclass(frozen=True, slots=True)
class JobFiles:
    """Where the files of a manifest's job are. Picklable."""

    file: Path
    job: str
    spec: Mapping[str, Any]
    run_folder: Path

    @property
    def store(self) -> str:
        """The checkpoint store's URL."""
        written = str(self.spec["checkpoint"]["store"])
        return written if "://" in written else str(self._path(written))

    def graph(self) -> Graph:
        """The application's, loaded so that its payload types are known, and the fields that they had."""
        application = self.spec["application"]
        written = [py_files.split(each) for each in application.get("pyFiles", ())]
        files = [
            py_files.found(place if "://" in place else str(self._path(place)), pin) for place, pin in written
        ]
        strong = self.spec.get("guarantee") == STRONG
        graph = load(self._path(application["file"]), application["graph"], files, productions=strong)
        with suppress(UserError):  # without a snapshot nothing is of an older code
            self.snapshot(None)
        return graph

    def sink_folder(self, sink: str) -> Path:
        """Raises UserError unless `sink` is a files sink."""
        found = self.spec["sinks"].get(sink)
        if found is None:
            raise UserError(f"{self.file}: there is no sink {sink!r}; it has {', '.join(self.spec['sinks'])}")
        folder = sinks.log_folder(found)
        if folder is None:
            raise UserError(
                f"{self.file}: sink {sink!r} is not a `files` sink: "
                "what others got is with whom they delivered to"
            )
        return self._path(folder)

    def snapshot(self, epoch: int | None) -> SnapshotIndex:
        """The snapshot of `epoch`; else of the committed epoch, if the run folder says which; else the
        newest.

        Raises UserError if there is none.
        """
        wanted = epoch if epoch is not None else self._committed()
        store = store_from(self.store)
        names = store.names("indexes/")
        chosen = (
            names
            if wanted is None
            else [name for name in names if name.startswith(f"indexes/{wanted:012d}-")]
        )
        for name in reversed(chosen):
            try:
                found = index_of(store.get(name))
            except msgspec.DecodeError as error:
                raise Corrupt(f"{name} in {self.store} is no snapshot index: {error}") from error
            if found.job == self.job:
                return found
        which = "no snapshot" if wanted is None else f"no snapshot of epoch {wanted}"
        raise UserError(
            f"{which} of job {self.job!r} in {self.store}: `flamestream snapshots list` shows what is there"
        )

    def _committed(self) -> int | None:
        try:
            status = from_json((self.run_folder / "status.json").read_bytes(), JobStatus)
        except FileNotFoundError:
            return None
        return status.epoch if status.job == self.job and status.epoch else None

    def _path(self, written: str) -> Path:
        return self.file.parent / Path(written).expanduser()


def job_files(manifest: str, run_folder: str | None) -> JobFiles:
    """Raises ManifestError if it cannot be read."""
    file = Path(manifest).absolute()
    try:
        document = parse(file.read_text(encoding="utf-8"), str(file)).value
        name, spec = document["metadata"]["name"], document["spec"]
    except (OSError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ManifestError(
            f"{file}: cannot be read as a manifest ({error}): check it with `flamestream validate`"
        ) from error
    return JobFiles(file, name, spec, Path(run_folder or f".flamestream/{name}").absolute())
