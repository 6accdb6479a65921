"""The examples with calls as jobs: their code and manifest as they are, with input of any size; and what must
have come out of it, by plain loops over that input and the service's own log.

How far such a job is, is what its service was asked so far: kills.py waits for that.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import yaml

from flamestream.job.application import load
from flamestream.model.graph import Graph
from support.calls.asked_service import AskedService, Log
from support.runs.cli_job import REPOSITORY, CliJob

FOLDER = REPOSITORY / "examples" / "after_lambda"
ADDRESS = "127.0.0.1:8008"
"""Where the examples look for their service."""
Row = dict[str, str]
MORNING = datetime(2026, 3, 2, 9, tzinfo=UTC)
IN_TIME, MINUTE = timedelta(seconds=30), timedelta(minutes=1)


def graph_of(folder: Path, example: str, service: AskedService) -> Graph:
    """The example's graph, which asks this service; its file is in `folder`."""
    return load(_application(folder, example, service), "graph")


def _application(folder: Path, example: str, service: AskedService) -> Path:
    """The example's code with another address, under a name of its own: a process loads a module once."""
    code = (FOLDER / f"{example}.py").read_text()
    assert ADDRESS in code
    file = folder / f"{example}_on_{service.port}.py"
    file.write_text(code.replace(ADDRESS, f"127.0.0.1:{service.port}"))
    return file


class ExampleJob(CliJob):
    """One of the examples over `rows`. `rate`: calls a second of each worker."""

    def __init__(
        self, folder: Path, example: str, service: AskedService, rows: Sequence[Row], rate: float
    ) -> None:
        spec = yaml.safe_load((FOLDER / f"{example}.yaml").read_text())["spec"]
        application = _application(folder, example, service)
        graph = load(application, "graph")  # this process knows its payloads then, too
        del spec["application"]
        (settings,) = spec["sources"].values()
        data = folder / settings["files"]["path"]
        data.parent.mkdir(exist_ok=True)
        data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        spec["calls"] = {name.removesuffix("()"): {"timeout": "400ms", "rate": rate} for name in graph.calls}
        spec["journal"]["fsync"] = False
        super().__init__(folder, application, spec, spark=False)
        self._service = service

    def output_bytes(self) -> int:
        """Requests instead: counts leave long before the last answer is there."""
        return self._service.requests()


# --- counts -------------------------------------------------------------------------------------------------


def hits(count: int, seed: int = 1) -> list[Row]:
    """A second apart, up to 20 s out of order, each from an address of its own; one in twenty is ten minutes
    older, which is too late whatever is read together."""
    rng = Random(seed)
    found = []
    for number in range(count):
        at = MORNING + timedelta(seconds=number - rng.randint(0, 20))
        if rng.random() < 0.05 and number > 100:
            at -= timedelta(minutes=10)
        page = rng.choice(["/shoes", "/boots", "/cart"])
        found.append({"page": page, "address": f"a{number}", "at": at.isoformat()})
    return found


@dataclass(frozen=True)
class Counts:
    """What comes out of hits."""

    counts: Counter[tuple[str, datetime]]
    """Of each page in each minute."""
    late: list[str]
    """Addresses of hits that came too late."""
    countries: Counter[tuple[str, datetime]]
    """Of each country in each hour."""


def counted(rows: Sequence[Row], countries: dict[str, str]) -> Counts:
    """By a loop over the hits, and the country that the service gave for each address."""
    found, newest = Counts(Counter(), [], Counter()), datetime.min.replace(tzinfo=UTC)
    for row in rows:
        at = datetime.fromisoformat(row["at"])
        minute, hour = at.replace(second=0), at.replace(minute=0, second=0)
        if minute + MINUTE + IN_TIME <= newest:
            found.late.append(row["address"])
        else:
            found.counts[row["page"], minute] += 1
        found.countries[countries[row["address"]], hour] += 1
        newest = max(newest, at)
    return found


def counts_in(delivered: Callable[[str], list[Any]]) -> Counts:
    """What the sinks have, where a window has one count."""
    windows = {sink: delivered(sink) for sink in ("counts", "countries")}
    for sink, each in windows.items():
        places = Counter((window.key, window.start) for window in each)
        assert not [place for place, times in places.items() if times > 1], f"{sink} has a window twice"
    counts, countries = (
        Counter({(window.key, window.start): window.value for window in each}) for each in windows.values()
    )
    return Counts(counts, [hit.address for hit in delivered("late")], countries)


# --- orders -------------------------------------------------------------------------------------------------


def orders(count: int) -> list[Row]:
    """Of some articles."""
    return [{"id": f"o{number}", "article": f"article-{number % 97}"} for number in range(count)]


@dataclass(frozen=True)
class Verdict:
    """On priced orders. All is 0 where each was priced once, for all to see."""

    lost: int
    """Orders without a result."""
    doubled: int
    """Results more than one of an order, or of no order."""
    effects_lost: int
    """Orders that the service did nothing for."""
    effects_doubled: int
    """What it did more than once for an order."""
    wrong: int
    """Results whose voucher or price is not what the service had and gave."""
    changed: int
    """Ids under which the service was asked for different things."""

    @property
    def clean(self) -> bool:
        """Whether nothing is to be said."""
        return not any(asdict(self).values())


def judged(rows: Sequence[Row], results: Sequence[Any], log: Log) -> Verdict:
    """By loops over the orders, what came out, and what the service has written down.

    A voucher stands for its order: whoever draws another one for it has its effect elsewhere, and is seen.
    """
    priced = Counter(result.order for result in results)
    ids = {row["id"] for row in rows}
    given: dict[str, set[int]] = {}
    for effects in log.effects.values():
        for effect in effects:
            given.setdefault(effect.item.partition("/")[2], set()).add(effect.gave)
    done = sum(map(len, log.effects.values()))
    wrong = [result for result in results if not _is_right(result, given.get(result.voucher, set()))]
    vouchers = len({result.voucher for result in results})
    return Verdict(
        lost=len(ids - priced.keys()),
        doubled=len(results) - len(ids & priced.keys()),
        effects_lost=max(0, len(rows) - len(log.effects)),
        effects_doubled=max(0, done - len(rows)),
        wrong=len(wrong) + abs(len(priced) - vouchers),
        changed=sum(len(items) > 1 for items in log.items.values()),
    )


def _is_right(result: Any, gave: set[int]) -> bool:
    return result.cents in {cents * (100 - result.percent) // 100 for cents in gave}
