"""Reading a log of a files sink while its writer is at it."""

from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from flamestream.core.protocol.actions import Bundle
from flamestream.fenced.log import encode_record, scan
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Attempt, Fence, LayoutVersion, SequenceNumber, Slot

FENCE = Fence(Attempt(1), LayoutVersion(0))
RECORDS = [
    encode_record(FENCE, number, [Bundle(Slot(0), SequenceNumber(number), b"m", b"")]) for number in (1, 2, 3)
]


class Beside(FileIO):
    """A file whose writer goes on behind the reader's `moment`-th read."""

    def __init__(self, path: Path, moment: int, rest: bytes) -> None:
        super().__init__(path)
        self._path, self._left, self._rest = path, moment, rest

    def read(self, *size: Any) -> Any:
        data = super().read(*size)
        self._left -= 1
        if self._left == 0:
            with self._path.open("ab") as writer:
                writer.write(self._rest)
        return data


@pytest.mark.parametrize("moment", range(1, 12))
@pytest.mark.parametrize("torn", [0, 3, 8, 12])
def test_a_writer_that_goes_on_meanwhile_is_no_damage(tmp_path: Path, torn: int, moment: int) -> None:
    whole, path = b"".join(RECORDS), tmp_path / "log"
    there = len(RECORDS[0]) + torn
    path.write_bytes(whole[:there])
    with Beside(path, moment, whole[there:]) as file:
        found = [record.delivery.number for record in scan(file, "log")]
        assert found == [1, 2, 3][: len(found)]
        assert found


@pytest.mark.parametrize("end", [None, sum(map(len, RECORDS))])
def test_a_damaged_record_with_a_whole_one_behind_it_is_damage(tmp_path: Path, end: int | None) -> None:
    path, damaged = tmp_path / "log", bytearray(b"".join(RECORDS))
    damaged[len(RECORDS[0]) + 10] ^= 1
    path.write_bytes(damaged)
    with FileIO(path) as file, pytest.raises(Corrupt, match="is damaged, and there is more"):
        list(scan(file, "log", 0, end))
