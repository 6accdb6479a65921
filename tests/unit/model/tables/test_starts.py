"""A transaction is begun by whatever a stream has: records, what folds and windows give, outcomes of others; and tables
are fed, read and joined by ordinary streams."""

from random import Random
from typing import Any

from hypothesis import strategies as st

import flamestream as fs
from flamestream.testing import check

Sale = tuple[str, int, int]
"""Shop, amount, second."""


def shops() -> fs.Graph:
    graph = fs.Graph("shops")
    sums = graph.table("sums", initial=int, check=lambda _, total: total < 60)
    limits = graph.table("limits", initial=lambda: 8)
    best = graph.table("best", initial=int)
    graph.source("limits").upsert(limits, key=lambda pair: pair[0], value=lambda pair: pair[1])
    sales: fs.Stream[Sale] = graph.source("sales", at=lambda sale: sale[2], unit="s")

    def sell(state: Any, sale: Sale) -> tuple[str, int]:
        """Several tables: one read, two written."""
        shop, amount, _ = sale
        if amount > state[limits, shop]:
            raise fs.Abort("limit")
        state[sums, shop] += amount
        state[best, "any"] = max(state[best, "any"], amount)
        return shop, state[sums, shop]

    sold = sales.transact(sell)
    sold.committed.sink("sold")
    sold.aborted.map(lambda a: (a.transaction[:2], a.reason)).sink("refused")
    # joined at the item's place in the order, by a transaction that only reads
    joined = sales.transact(lambda state, sale: (*sale, state[sums, sale[0]], state[limits, sale[0]]))
    joined.committed.sink("joined")

    def rewarded(state: Any, counted: tuple[str, int]) -> tuple[str, int]:
        """Begun by a fold: every third sale raises the limit."""
        shop, count = counted
        if count % 3:
            raise fs.Abort("not yet")
        state[limits, shop] += 1
        return shop, state[limits, shop]

    counts = sales.reduce(
        name="counts", key=lambda sale: sale[0], combine=fs.count(), emit=lambda count, sale: (sale[0], count)
    )
    counts.transact(rewarded).committed.sink("limits")

    def closed(state: Any, counted: Any) -> tuple[str, int, int]:
        """Begun by a window: what is sold within ten seconds begins anew."""
        before = state[sums, counted.key]
        state[sums, counted.key] = 0
        return counted.key, counted.value, before

    windows = sales.window(fs.tumbling("10s"), key=lambda sale: sale[0], name="windows").count()
    windows.transact(closed).committed.sink("closed")
    sums.keep_changes(2)  # which leads nowhere, and changes nothing
    return graph


def by_hand(sales: list[Sale]) -> dict[str, list[Any]]:
    """A loop over dicts, for one shop whose sales come in order."""
    total, limit, window = 0, 8, list[Sale]()
    found: dict[str, list[Any]] = {name: [] for name in ("sold", "refused", "joined", "limits", "closed")}
    for count, sale in enumerate(sales, 1):
        shop, amount, second = sale
        if amount > limit:
            found["refused"].append(((shop, amount), "limit"))
        elif total + amount >= 60:
            found["refused"].append(((shop, amount), "a check"))
        else:
            total += amount
            found["sold"].append((shop, total))
        found["joined"].append((*sale, total, limit))
        if count % 3 == 0:
            limit += 1
            found["limits"].append((shop, limit))
        if window and window[0][2] // 10 < second // 10:  # closed behind the item that says so
            found["closed"].append((shop, len(window), total))
            window, total = [], 0
        window.append(sale)
    found["closed"].append(("a", len(window), total))
    return found


def test_they_come_to_what_a_loop_over_dicts_comes_to() -> None:
    rng = Random(5)
    sales = [("a", rng.randrange(14), second) for second in range(0, 90, 2)]
    found = shops().run(limits=[], sales=sales)
    assert found == by_hand(sales)
    assert min(map(len, found.values())) > 1


def test_so_they_do_through_drawn_records_and_schedules() -> None:
    shop = st.sampled_from("ab")
    sales = st.tuples(shop, st.integers(0, 13), st.integers(0, 40))
    check(shops(), examples=5, sales=sales, limits=st.tuples(shop, st.integers(5, 15)), other_process=False)
