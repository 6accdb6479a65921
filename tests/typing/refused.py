"""Mistakes that type checkers find: each line with `# wrong` must have an error, and no other
(test_inference.py)."""

import flamestream as fs


@fs.event
class Click:
    user: str
    cents: int


@fs.event
class View:
    user: str


def doubled(number: int) -> int:
    return 2 * number


def mistakes() -> None:
    graph = fs.Graph("wrong")
    clicks = graph.source("clicks", Click)
    clicks.map(lambda click: click.usr)  # wrong: no such field
    clicks.map(doubled)  # wrong: a Click is no int
    clicks.map(lambda click: click.cents).map(lambda cents: cents.user)  # wrong: an int has no user
    clicks.filter(doubled)  # wrong: a Click is no int
    clicks.flat_map(lambda click: click.cents)  # wrong: an int is not several results
    clicks.sink("out", key=5)  # wrong: neither a name nor a function
    clicks.sink("out", key=lambda click: click.name)  # wrong: no such field
    clicks.reduce(key=lambda click: click.name, combine=fs.count())  # wrong: no such field
    clicks.reduce(key="user", combine=doubled, initial=int)  # wrong: a fold has two arguments
    clicks.window(fs.tumbling("1m"), key=lambda click: click.name)  # wrong: no such field
    windows = clicks.window(fs.tumbling("1m"), key="user")
    windows.total(lambda click: click.price)  # wrong: no such field
    windows.top(3, by=lambda click: click.price)  # wrong: no such field
    windows.fold(initial=int, combine=lambda n, click: n + click.price)  # wrong: no such field
    windows.count().map(lambda window: window.value.user)  # wrong: an int has no user
    views = graph.source("views", View)
    clicks.join(views, on=lambda item: item.cents, unbounded=True)  # wrong: a View has none
    pairs = clicks.join(views, on="user", within=("-5s", "5s"))
    pairs.map(lambda pair: pair[1].cents)  # wrong: a View has none
    loose = clicks.join(views, on="user", unbounded=True, how="left")
    loose.map(lambda pair: pair[1].user)  # wrong: it may be None
    changes = clicks.join_table(views, on="user")
    changes.map(lambda change: change.after[1].user)  # wrong: it may be None
    clicks.process(key="user", on_item=lambda _, click, now: (1, [click.name]))  # wrong: no such field
    Click(user=5, cents=1)  # wrong: a user is a str
    Click("ann", 1).cents = 2  # wrong: it is frozen
