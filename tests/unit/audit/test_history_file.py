"""Lines of a history are read together, and what is wrong with one is told with its number."""

from pathlib import Path

import pytest

from flamestream.audit.history_file import TOGETHER, lines
from flamestream.model.errors import UserError

GOOD = '{"in": "orders", "value": 1}\n'


def numbers(path: Path, text: str) -> list[int]:
    path.write_text(text)
    return [number for number, _ in lines(path)]


def test_lines_are_numbered_across_pieces_and_empty_ones_count(tmp_path: Path) -> None:
    many = 2 * TOGETHER // len(GOOD)
    assert numbers(tmp_path / "seen.jsonl", GOOD * many + "\n" + GOOD) == [*range(1, many + 1), many + 2]


@pytest.mark.parametrize(
    "wrong",
    [
        GOOD.strip() + GOOD + "\n",
        GOOD.replace(" ", "\n", 1) + GOOD.strip() + GOOD,
        '{"in": "orders", "out": "totals", "value": 1}\n',
        '{"in": "orders", "value": 1, "key": 1}\n',
        '{"out": "totals", "value": 1, "partition": 1}\n',
        '{"in": "orders"}\n',
        "[]\n",
    ],
)
def test_a_wrong_line_among_good_ones_is_told_with_its_number(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"seen.jsonl:4: "):
        numbers(tmp_path / "seen.jsonl", GOOD * 3 + wrong + GOOD)
