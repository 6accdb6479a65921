"""What the outside for peers makes of the bytes that came."""

from harness.lines import report

ONE = [(1.0, b"a\t0\t1\t5\nb\t0\t1"), (2.0, b"\t7,9\n")]


def test_a_line_came_when_its_last_byte_came() -> None:
    assert report([ONE])["last"] == {0: 2.0}


def test_the_last_change_of_a_document_is_the_latest_on_any_connection() -> None:
    assert report([ONE, [(1.5, b"c\t0\t1\t1\n")]])["last"] == {0: 2.0}


def test_changes_are_counted_by_document() -> None:
    assert report([ONE, [(3.0, b"a\t1\t2\t0\n")]])["counts"] == {0: 2, 1: 1}


def test_in_order_nothing_is_out_of_order() -> None:
    assert report([[(1.0, b"a\t0\t1\t5\na\t1\t2\t5\n")]])["disorder"] == 0


def test_a_doubled_or_missing_change_of_a_word_is_seen() -> None:
    assert report([[(1.0, b"a\t0\t1\t5\na\t0\t1\t5\n")]])["disorder"] == 1
    assert report([[(1.0, b"a\t0\t1\t5\na\t2\t3\t5\n")]])["disorder"] == 1


def test_deliveries_of_all_connections_are_in_the_order_of_time() -> None:
    assert report([ONE, [(1.5, b"c\t0\t1\t1\n")]])["deliveries"] == [1.0, 1.5, 2.0]
