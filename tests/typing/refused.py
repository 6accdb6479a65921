"""Mistakes that type checkers find: each line with `# wrong` must have an error, and no other
(test_inference.py)."""

import flamestream as fs


@fs.event
class Click:
    user: str
    cents: int


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
    Click(user=5, cents=1)  # wrong: a user is a str
    Click("ann", 1).cents = 2  # wrong: it is frozen
