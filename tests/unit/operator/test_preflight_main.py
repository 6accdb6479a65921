"""The trial of new code reads a snapshot that the stream beside it replaces all the time."""

import json
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from flamestream.audit.canary import Canary, Difference
from flamestream.core.protocol.formats import NEWEST
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.job.settings import PYTHON, inventory
from flamestream.job.validation import CheckedJob, checked
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.ids import NO_FENCE, Attempt, Epoch, LayoutVersion, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.quoted import public, quoted
from flamestream.model.time import Time
from flamestream.store.snapshot_index import write_index
from flamestream.store.snapshots import checksum_of
from flamestream_operator.api.job_status import CanaryStatus
from flamestream_operator.tools.preflight_main import fits, message, newest, told_of
from support.runs.job_folder import JobFolder


@dataclass
class Store:
    """What a store does that a commit in between changes."""

    objects: dict[str, bytes] = field(default_factory=dict)

    def get(self, name: str) -> bytes:
        if name not in self.objects:
            raise Corrupt(f"object {name!r} is missing")
        return self.objects[name]

    def put_new(self, name: str, data: bytes) -> bool:
        self.objects[name] = data
        return True


class Stream:
    """Commits an epoch whenever its record was read, so often as is asked; the index before goes."""

    def __init__(self, commits: int) -> None:
        self.store, self.commits, self.epoch = Store(), commits, 0
        self.record = self.commit()

    def commit(self) -> JobRecord:
        self.epoch += 1
        epoch, cut, name = Epoch(self.epoch), Time(self.epoch * 10), f"indexes/{self.epoch}"
        index = SnapshotIndex(
            job="j",
            graph="g",
            python="3.11",
            slots=1,
            epoch=epoch,
            fence=NO_FENCE,
            cut=cut,
            segments=(),
            fronts=(),
            outputs=(),
        )
        self.store.objects.clear()
        digest = write_index(self.store, name, index)  # type: ignore[arg-type]  # what it needs of a store
        layout = Layout(LayoutVersion(1), (WorkerId("w"),), (), WorkerId("w"))
        return JobRecord(
            attempt=Attempt(1), layout=layout, announced=epoch, committed=epoch, cut=cut, index=name,
            index_hash=digest, job="j", writer="",
        )  # fmt: skip

    def read(self) -> Any:
        found = self.record
        if self.commits:
            self.commits -= 1
            self.record = self.commit()
        return found, 1


def test_a_snapshot_that_is_replaced_while_it_is_looked_at_is_looked_up_again() -> None:
    stream = Stream(commits=3)
    found = newest(stream, stream.store)  # type: ignore[arg-type]  # what it needs of both
    assert found is not None
    assert found.epoch == 4


def test_a_snapshot_that_is_gone_for_good_is_an_error() -> None:
    stream = Stream(commits=0)
    stream.store.objects.clear()
    with pytest.raises(Corrupt, match="missing"):
        newest(stream, stream.store)  # type: ignore[arg-type]


def test_an_older_image_refuses_a_snapshot_of_a_newer_release_while_the_stream_runs_on() -> None:
    """What raises here is the trial's verdict, and no launch follows."""
    stream = Stream(commits=0)
    name = stream.record.index
    newer = json.dumps(json.loads(stream.store.objects[name]) | {"format": NEWEST + 1}).encode()
    stream.store.objects[name] = newer
    stream.record = replace(stream.record, index_hash=checksum_of(newer))
    with pytest.raises(
        Corrupt, match=r"of a newer FlameStream.*resume the job with the version that wrote it"
    ):
        newest(stream, stream.store)  # type: ignore[arg-type]  # what it needs of both
    assert stream.store.objects == {name: newer}


def test_new_code_fits_by_the_names_of_its_operations(job: JobFolder) -> None:
    """Added beside others it fits; a state without its operation does not, unless the spec drops it."""
    kept = "graph.source('lines').reduce(key=len, initial=int, combine=max, name='{}').sink('shouts')"
    code = "import flamestream as fs\ngraph = fs.Graph('upper')\n" + kept
    before = checked(job.write(code.format("longest")))
    spec = before.job.spec
    index = SnapshotIndex(
        job="j", graph=before.graph.identity, python=PYTHON, slots=spec.workers.slots, epoch=Epoch(7), fence=NO_FENCE,
        cut=Time(1), segments=(), fronts=(), outputs=(), inventory=inventory(before),
    )  # fmt: skip
    fits(before, index)
    more = code.format("longest").replace(".reduce", ".filter(bool).reduce")
    fits(_again(job, more), index)
    other = _again(job, code.format("other"))
    with pytest.raises(UserError, match=r"snapshot of epoch 7: it has state of operation 'longest'"):
        fits(other, index)
    fits(_again(job, code.format("other"), upgrade="{drop: [longest]}"), index)


FOUND = Canary(
    records=9, epoch=7, equal=5, differ=2, only_after=1, new_errors=1, first_error=f"E ({quoted('secret')})",
    differences=(Difference("shouts", "record 3 of lines", "secret", None),),
)  # fmt: skip


def test_a_canary_is_told_without_users_data() -> None:
    """A status is read by others than who may see them."""
    told = told_of(FOUND)
    assert (told["equal"], told["differ"], told["newErrors"], told["examples"]) == (
        5,
        3,
        1,
        ["shouts, of record 3 of lines"],
    )
    assert "secret" not in json.dumps(told) and "secret" in FOUND.refusal
    assert "secret" not in public(FOUND.refusal)
    assert convert(told, CanaryStatus).new_errors == 1


def test_a_verdict_fits_a_termination_message_whatever_its_words_are() -> None:
    long = "\u00e9" * 3000
    said = {
        "ok": False,
        "reason": "CanaryFailed",
        "message": long,
        "graph": long,
        "canary": told_of(FOUND) | {"summary": long},
    }
    text = message(said)
    assert len(text.encode()) <= 4096
    assert (json.loads(text)["ok"], json.loads(text)["reason"]) == (False, "CanaryFailed")
    assert json.loads(message({"ok": True, "canary": told_of(FOUND)}))["canary"]["records"] == 9


def _again(job: JobFolder, code: str, **changes: str) -> CheckedJob:
    sys.modules.pop(job.module, None)
    return checked(job.write(code, **changes))
