"""What goes from a journal's topic: trims leave what is needed, and a topic that has lost entries, or would
lose them, is refused."""

import random

import pytest

from flamestream.journal.kafka import everything
from flamestream.journal.kafka_partitions import weakness
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.time import Time
from support.journals.topic import JOB, Attempts
from support.journals.worker import FRONT


def test_a_trim_leaves_one_seal_and_the_newest_batch(attempts: Attempts) -> None:
    for time in (10, 20, 30):
        attempts.seal().append(time)
    attempts.cut = 40
    attempts.writers[-1].writer.trim(Time(40))
    with pytest.raises(Corrupt, match="missing"):
        everything(attempts.partitions, JOB, FRONT)
    attempts.partitions.compact(tombstones=True)
    attempts.partitions.land(b"index/3/batch/00000001/late-1", b"not looked into")
    left = [row.key.split(b"/")[2:4] for row in attempts.partitions.rows if row.value is not None]
    assert left == [[b"seal", b"00000003"], [b"batch", b"00000003"], [b"batch", b"00000001"]]
    with pytest.raises(Corrupt, match="missing"):
        everything(attempts.partitions, JOB, FRONT)
    attempts.seal()


def test_what_was_trimmed_is_not_trimmed_again(attempts: Attempts) -> None:
    writer = attempts.seal()
    for time in (10, 20, 30):
        writer.append(time)
    attempts.cut = 30
    writer.writer.trim(Time(30))
    heir = attempts.seal()
    heir.writer.trim(Time(30))
    assert [row.key.split(b"/")[2] for row in attempts.partitions.rows if row.value is None] == [
        b"batch",
        b"batch",
        b"seal",
    ]


def test_a_seal_stays_until_what_it_keeps_from_counting_is_gone(attempts: Attempts) -> None:
    zombie = attempts.seal()
    attempts.seal().append(10)
    zombie.append(20)
    heir = attempts.seal()
    attempts.cut = 10
    attempts.partitions.lossy = random.Random(1)
    while heir.writer._strays:  # type: ignore[attr-defined]
        assert len(heir.writer._seals) == 2  # type: ignore[attr-defined]
        heir.writer.trim(Time(10))
        attempts.partitions.compact()
        assert [each.time for each in everything(attempts.partitions, JOB, FRONT)] == [10]
    attempts.seal()


def test_a_batch_that_is_needed_and_gone_is_corrupt(attempts: Attempts) -> None:
    writer = attempts.seal()
    for time in (10, 20, 30):
        writer.append(time)
    del attempts.partitions.rows[2]
    with pytest.raises(Corrupt, match="up to 20"):
        attempts.seal()


def test_brokers_that_have_lost_acknowledged_records_are_found_out(attempts: Attempts) -> None:
    writer = attempts.seal()
    writer.append(10)
    attempts.partitions.rows.pop()
    attempts.partitions.end -= 1
    answer = writer.append(20)
    assert isinstance(answer, Corrupt) and "lost acknowledged records" in str(answer)


def test_a_topic_with_records_of_others_is_refused(attempts: Attempts) -> None:
    attempts.partitions.land(b"other-job/3/seal/00000001/x-1", b"sealed")
    with pytest.raises(UserError, match="other-job"):
        attempts.seal()


@pytest.mark.parametrize(
    ("replicas", "settings", "brokers", "words"),
    [
        ([3, 3], {"cleanup.policy": "compact", "unclean.leader.election.enable": "false"}, 3, ""),
        ([1, 1], {"cleanup.policy": "compact"}, 1, ""),
        ([1, 3], {"cleanup.policy": "compact"}, 3, "one replica"),
        ([3], {"cleanup.policy": "compact"}, 3, "1 partitions"),
        ([3, 3], {"cleanup.policy": "compact,delete"}, 3, "entries expire"),
        ([3, 3], {"cleanup.policy": "compact", "unclean.leader.election.enable": "true"}, 3, "may be lost"),
    ],
)
def test_a_topic_that_would_lose_entries_is_not_a_journal(
    replicas: list[int], settings: dict[str, str], brokers: int, words: str
) -> None:
    found = weakness(replicas, settings, 2, brokers)
    assert words in found and bool(words) == bool(found)
