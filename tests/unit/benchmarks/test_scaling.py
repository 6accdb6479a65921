"""The model of latency over workers, and that what is modelled never passes for measured."""

from figures.scaling import Costs, modelled, slope, with_shell
from harness.corpus import documents
from harness.report import workers_table
from harness.results import Row, by_workers

LINES = list(documents(12))
COSTS = Costs(a_pass=50, a_chore=0, enter=1, reduce=1, hop=0.5, deliver=1, delay=20)


def latencies(costs: Costs, workers: int = 1) -> list[float]:
    return modelled(costs, workers, LINES, 50.0, 1000)


def test_every_document_has_a_latency_on_any_number_of_workers() -> None:
    assert [len(latencies(COSTS, workers)) for workers in (1, 3)] == [12, 12]


def test_what_costs_more_takes_longer() -> None:
    dear = Costs(a_pass=50, a_chore=0, enter=1, reduce=30, hop=0.5, deliver=1, delay=20)
    assert min(b - a for a, b in zip(latencies(COSTS), latencies(dear), strict=True)) > 0


def test_the_slope_is_not_pulled_by_outliers() -> None:
    sizes = list(range(100))
    times = [3 * size + 7 + (10_000 if size % 10 == 9 else 0) for size in sizes]
    assert 2.5 < slope(sizes, times)[0] < 3.5


def test_the_delay_is_the_one_at_which_one_worker_is_as_measured() -> None:
    def run(costs: Costs) -> list[float]:
        return [costs.delay / 100]

    assert abs(with_shell(COSTS, [1, 2, 3, 4], [5.0, 5.0, 5.0, 5.0], run).delay - 500) <= 25


def row(workers: int, how: bool, latency: float) -> Row:
    costs = {"costs": {"hop": 1.0}} if how else {}
    return {
        "kind": "workers",
        "cell": {"workers": workers},
        "modelled": how,
        "latencies_ms": [latency],
        "noise": {"load": 1.0},
        **costs,
    }


def test_measured_and_modelled_are_apart() -> None:
    rows = [row(1, False, 2.0), row(1, True, 3.0), row(8, True, 4.0)]
    assert set(by_workers(rows)) == {(1, False), (1, True), (8, True)}
    table = workers_table(rows)
    assert (
        "| 1 | measured | 2.0" in table
        and "| 1 | modelled | 3.0" in table
        and "| 8 | modelled | 4.0" in table
    )
