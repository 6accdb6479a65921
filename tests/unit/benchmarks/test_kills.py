"""What the figure of kills says of a run: latencies, gaps, and whatever is lost or doubled."""

from kills.figure import KILLS, SECONDS, found_of

BEGIN = 100.0
DUE = [BEGIN + number / 10 for number in range(int(SECONDS * 10))]
AT = [BEGIN + kill for kill in KILLS]
SEEN = [(due + 0.004, number) for number, due in enumerate(DUE)]


def test_a_latency_is_from_when_a_record_was_due() -> None:
    early = [(BEGIN - 1.0, 0), *((when, number + 1) for when, number in SEEN)]
    found = found_of([BEGIN - 2.0, *DUE], early, BEGIN, AT)
    assert found["points"][:2] == [[0.0, 4.0], [0.1, 4.0]], "what was before the beginning warmed up"
    assert (found["records"], found["lost"], found["doubled"]) == (len(DUE) + 1, 0, 0)


def test_a_gap_is_the_longest_pause_from_a_kill_to_the_next() -> None:
    late = [(max(when, AT[1] + 0.5), n) if AT[1] < when < AT[1] + 0.5 else (when, n) for when, n in SEEN]
    gaps = [kill["gap_ms"] for kill in found_of(DUE, late, BEGIN, AT)["kills"]]
    assert gaps[0] == gaps[2] == 100
    assert 500 <= gaps[1] <= 600


def test_what_is_lost_or_doubled_is_counted() -> None:
    found = found_of(DUE, [*SEEN[:-2], SEEN[0], SEEN[0]], BEGIN, AT)
    assert (found["lost"], found["doubled"]) == (2, 2)
