"""The committed manifest, as the coordinator knows it: read by the name in the job record, never found by
listing, and checked.

Keeps: a restore begins from the manifest that the record names, made by this job's graph; a missing, damaged
or foreign one is an error that names it, never an empty state (invariant 4). Does not: read bytes or check
hashes (the shell, with the hash in the record), or load segments (the workers).
"""

import msgspec

from flamestream.core.coordinator.coordination import ManifestBroken, ManifestLoaded, ReadManifest, Settings
from flamestream.core.coordinator.deadlines import Deadlines
from flamestream.core.coordinator.instructions import Instructions
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.snapshot import Manifest
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.time import Instant


class CommittedManifest:
    """The committed manifest, and the way to have it again."""

    def __init__(self, instructions: Instructions, deadlines: Deadlines, settings: Settings) -> None:
        self.manifest: Manifest | None = None
        self.size = 0
        """Bytes of the manifest's segments."""
        self.problem = ""
        self.corrupt = False
        """Whether this attempt was told that the manifest is missing or damaged; a new attempt asks again."""
        self._instructions, self._deadlines, self._settings = instructions, deadlines, settings
        self.name = ""
        self._asked = ""
        self._again: Instant | None = None

    def known(self, record: JobRecord) -> bool:
        """Whether `manifest` is the record's (None if it names none); if not, it is asked for."""
        if not record.manifest or not self._settings.durable:
            self.manifest, self.name = None, ""
            return True
        if record.manifest == self.name:  # by name: a manifest never changes
            return True
        self._ask(record)
        return False

    def learn(self, name: str, manifest: Manifest) -> None:
        """The manifest `name` was read, or has just been committed."""
        if not self._settings.exactly_once:
            manifest = msgspec.structs.replace(manifest, outputs=())  # no consumer has to remember anything
        self.manifest, self.name = manifest, name
        self.size = sum(segment.size for segment in manifest.segments)
        self.problem = ""

    def hear(self, event: ManifestLoaded | ManifestBroken) -> bool:
        """Take the answer to ReadManifest; False if it is to an older question."""
        if event.name != self._asked:
            return False
        self._asked = ""
        if isinstance(event, ManifestLoaded):
            self.learn(event.name, event.manifest)
        else:
            self.problem, self.corrupt = (
                f"manifest {event.name}: {event.message}",
                event.category != "retryable",
            )
            self._again = Instant(self._deadlines.now + self._settings.retry_us)
        return True

    def raise_if_corrupt(self) -> None:
        """Raises Corrupt if the manifest is lost, without which no recovery can go on."""
        if self.corrupt:
            raise Corrupt(
                f"{self.problem}: the last snapshot of job {self._settings.job!r} is lost; restore the "
                "object and start again"
            )

    def check(self, record: JobRecord) -> None:
        """Raises Corrupt or UserError if the known manifest is not one that this job can start from."""
        if self.manifest is not None:
            _check_manifest(self.manifest, record, self._settings)

    def _ask(self, record: JobRecord) -> None:
        if self._asked == record.manifest or (
            self._again is not None and not self._deadlines.due(self._again)
        ):
            return
        self._asked, self._again = record.manifest, None
        self._instructions.add(ReadManifest(record.manifest, record.manifest_hash))


def _check_manifest(manifest: Manifest, record: JobRecord, settings: Settings) -> None:
    name = record.manifest
    if (manifest.epoch, manifest.cut) != (record.committed, record.cut):
        raise Corrupt(
            f"manifest {name} is of epoch {manifest.epoch} at cut {manifest.cut}, but the job record has "
            f"epoch {record.committed} at"
            f" {record.cut}: store and cluster state do not belong together; "
            "restore both from the same moment"
        )
    if manifest.held and not settings.two_phase:
        raise UserError(holds_output(name))
    for what, theirs, ours in (
        ("job", manifest.job, settings.job),
        ("graph", manifest.graph, settings.graph),
        ("number of slots", manifest.slots, settings.slots),
        ("Python", manifest.python, settings.python),
    ):
        if theirs != ours:
            raise UserError(
                f"manifest {name} was written by another {what}: it has {theirs!r}, this job has {ours!r}. "
                f"Start with the {what} of the"
                " snapshot; or begin anew: `flamestream reset` removes what a job of one machine has left, "
                "upgrade.strategy: Fresh drops a"
                " cluster's"
            )


def holds_output(name: str) -> str:
    """The reason why another guarantee cannot go on from this manifest."""
    return (
        f"manifest {name} holds output that exactly-once-2pc (or at-most-once) has not delivered yet: start the "
        "job with that guarantee once more, stop it with a drain (which delivers everything), and change the "
        "guarantee then"
    )
