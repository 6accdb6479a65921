"""Names of fields: a text is a key wherever a function is, and one that the items lack is refused where it
stands, with file and line."""

from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

import pytest

import flamestream as fs
from flamestream.model.errors import GraphError
from flamestream.model.fields import either, result_of, results_of
from flamestream.model.vertex import Kind


@fs.event
class Click:
    user: str
    page: str
    cents: int = 0

    @property
    def site(self) -> str:
        return self.page.split("/")[0]


@fs.event
class View:
    user: str
    seconds: float


def viewed(click: Click) -> View:
    return View(click.user, 1.0)


def views(click: Click) -> Iterator[View]:
    yield View(click.user, 1.0)


def anything(click: Click) -> Any:
    return click


class Viewed:
    def __call__(self, click: Click) -> View:
        return viewed(click)


def clicks() -> fs.Stream[Click]:
    return fs.Graph("g").source("clicks", Click)


def timed() -> fs.Stream[Click]:
    return fs.Graph("g").source("clicks", Click, at="cents", unit="s")


def counts() -> Any:
    return timed().window(fs.tumbling("1m"), key="user").count()


def pairs() -> Any:
    stream = timed()
    return stream.join(stream, on="user", within=("0s", "1s"))


def test_a_text_is_the_field_of_that_name_in_every_key() -> None:
    stream = clicks()
    stream.group(2, key="user").sink("groups")
    stream.reduce(key="site", combine=fs.count()).sink("counts")
    stream.sink("out", key="page")
    keys = [v.key for v in stream.graph.validated().vertices if v.kind in (Kind.GROUPING, Kind.REDUCE)]
    assert keys == [fs.field("user"), fs.field("site")]
    assert stream.graph.sinks[2].key == fs.field("page")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda s: s.sink("out", key="usr"),
            r"Click has no field 'usr' \(it has user, page, cents\): did you mean 'user'\?",
        ),
        (lambda s: s.group(2, key=fs.field("usr")), "Click has no field 'usr'"),
        (lambda s: s.reduce(key="usr", combine=fs.count()), "Click has no field 'usr'"),
        (
            lambda s: s.reduce(key="user", combine=fs.total("cent")),
            r'total\("cent"\): Click has no field .*did you mean \'cents\'',
        ),
        (
            lambda s: s.reduce(key="user", combine=fs.append("user", "x")),
            r'append\("user", "x"\): Click has no field \'x\'',
        ),
        (
            lambda s: s.reduce(
                key="user", combine=fs.count(), emit=fs.record(View, "user", seconds=fs.field("z"))
            ),
            "no field 'z'",
        ),
        (lambda s: timed().window(fs.tumbling("1m"), key="user").total("cent"), "did you mean 'cents'"),
        (lambda s: timed().window(fs.tumbling("1m"), key="user").top(2, by="cent"), "no field 'cent'"),
        (lambda s: s.filter(bool).broadcast(1)[0].balance(hash).sink("out", key="usr"), "Click has no field"),
        (
            lambda s: s.map(viewed).sink("out", key="page"),
            r"View has no field 'page' \(it has user, seconds\)",
        ),
        (lambda s: s.map(Viewed()).sink("out", key="page"), "View has no field"),
        (lambda s: s.flat_map(views).sink("out", key="page"), "View has no field"),
        (lambda s: s.merge(s.map(viewed)).sink("out", key="page"), "View has no field"),
        (lambda s: s.reduce(key="user", combine=fs.count()).sink("out", key="user"), "a int has no fields"),
        (lambda s: s.map(fs.field("user")).sink("out", key="user"), "a str has no fields"),
        (lambda s: s.map(fs.field("usr")), "Click has no field 'usr'"),
        (lambda s: s.group(2, key="user").sink("out", key="user"), "a tuple has no fields"),
        (lambda s: s.join_table(s.map(viewed), on="page"), "View has no field 'page'"),
        (lambda s: s.join_table(s, on=("usr", "user")), "Click has no field 'usr'"),
        (lambda s: s.join_table(s, on="user").sink("out", key="user"), "Changed has no field 'user'"),
        (lambda s: timed().join(timed(), on="usr", within=("0s", "1s")), "Click has no field 'usr'"),
        (lambda s: timed().join_latest(timed(), on="usr"), "Click has no field 'usr'"),
        (
            lambda s: timed().window(fs.tumbling("1m"), key="user").count().sink("out", key="user"),
            r"Windowed has no field 'user' \(it has key, start, end, value\)",
        ),
        (lambda s: counts().late.sink("out", key="key"), "Click has no field 'key'"),
        (lambda s: pairs().sink("out", key="user"), "a tuple has no fields"),
        (lambda s: timed().dedup("user", within="1m").sink("out", key="usr"), "Click has no field 'usr'"),
        (
            lambda s: (
                timed()
                .reduce(key="user", combine=fs.count(), emit=fs.record(View, "user", seconds=1.0), ttl="1m")
                .sink("out", key="page")
            ),
            "View has no field 'page'",
        ),
    ],
)
def test_a_field_that_the_items_lack_is_refused_where_it_is_named(
    build: Callable[[Any], Any], message: str
) -> None:
    with pytest.raises(GraphError, match=rf"^tests/unit/model/test_fields\.py:\d+: fs\..*{message}"):
        build(clicks())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda s: s.map(fs.field("cents").str.lower()),
            r'fs.field\("cents"\).str.lower\(\) takes a str, not a int \(cents is of int\)$',
        ),
        (
            lambda s: s.map(fs.field("user").dt.floor("1m")),
            r"takes a datetime, not a str \(user is of str\)$",
        ),
        (lambda s: s.map(fs.field("user") * fs.field("page")), r"\(user is of str, page is of str\)$"),
        (lambda s: s.filter(fs.field("cents") > "5"), r"'>' not supported"),
        (lambda s: s.filter((fs.field("cents") > 5) & fs.field("user")), "needs True or False, not a str"),
        (lambda s: s.filter(~fs.field("cents")), "needs True or False, not a int"),
        (lambda s: s.map(-fs.field("user")), "bad operand type for unary -"),
        (lambda s: s.map(fs.field("cents")[0]), "not subscriptable"),
        (lambda s: s.map(fs.field("user").str.len().str.lower()), "takes a str, not a int"),
        (lambda s: s.map(fs.when(fs.field("user")).then(1).otherwise(0)), "needs True or False, not a str"),
        (lambda s: s.map(fs.record(View, "user", seconds=fs.field("page") - 1)), r"fs.field\(\"page\"\) - 1"),
        (lambda s: s.reduce(key="user", combine=fs.total("page")), r'fs.total\("page"\): .*page is of str'),
        (lambda s: timed().window(fs.tumbling("1m"), key="user").total("page"), "page is of str"),
        (lambda s: timed().window(fs.tumbling("1m"), key="user").mean(fs.field("page")), "page is of str"),
    ],
)
def test_an_operation_on_a_field_of_another_type_is_refused_where_it_stands(
    build: Callable[[Any], Any], message: str
) -> None:
    with pytest.raises(GraphError, match=rf"^tests/unit/model/test_fields\.py:\d+: .*{message}"):
        build(clicks())


@pytest.mark.parametrize(
    "expression",
    [
        fs.field("user") * fs.field("cents") + "!",
        fs.field("user") % fs.field("cents"),
        (fs.field("cents") / 3 > 1) | fs.field("user").str.startswith("a"),
        fs.field("user").str.split("/")[2].str.lower(),
        fs.field("user") == fs.field("cents"),
        fs.field("cents") // (fs.field("cents") - 1),
        fs.field("user")[3] < "b",
        fs.when(fs.field("cents").is_none()).then("none").otherwise(fs.field("cents")),
    ],
)
def test_an_operation_that_has_a_value_for_some_item_is_taken(expression: Any) -> None:
    clicks().map(expression)


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.map(anything).sink("out", key="anything"),
        lambda s: s.map(lambda click: click).sink("out", key="anything"),
        lambda s: s.map(repr).sink("out", key="anything"),
        lambda s: s.merge(s.map(anything)).sink("out", key="anything"),
        lambda s: s.merge(s.map(viewed)).sink("out", key="user"),
        lambda s: s.merge(s.map(viewed)).filter(lambda item: isinstance(item, Click)).sink("out", key="page"),
        lambda s: s.graph.source("others").sink("out", key="anything"),
    ],
)
def test_what_is_not_known_is_not_checked(build: Callable[[Any], Any]) -> None:
    build(clicks())


@pytest.mark.parametrize(
    ("build", "lacking"),
    [
        (lambda: timed().map(viewed), "View has no field 'cents'"),
        (lambda: counts().map(viewed), "View has no field 'end'"),
        (lambda: pairs().map(viewed), "View has no field 'cents'"),
        (
            lambda: (clicks := timed()).merge(clicks.window(fs.tumbling("1m"), key="user").count()),
            "Windowed has no",
        ),
    ],
)
def test_items_that_lost_their_time_are_refused_where_it_is_wanted(
    build: Callable[[], Any], lacking: str
) -> None:
    said = rf"test_fields\.py:\d+: window\(.* reads the event time of items: fs\.field.*{lacking}"
    with pytest.raises(GraphError, match=said):
        build().window(fs.tumbling("1m"), key=lambda item: None).count()


def test_pairs_have_their_time_of_both() -> None:
    pairs().window(fs.tumbling("1m"), key=lambda pair: None).count().sink("out")


def test_a_filter_with_a_type_guard_says_what_is_left() -> None:
    def is_view(item: Click | View) -> TypeGuard[View]:
        return isinstance(item, View)

    shown = clicks()
    views_alone = shown.merge(shown.map(viewed)).filter(is_view)
    assert views_alone.items is View
    with pytest.raises(GraphError, match="View has no field 'page'"):
        views_alone.sink("out", key="page")


def test_types_of_results() -> None:
    assert result_of(viewed) is result_of(Viewed()) is result_of(View) is results_of(views) is View
    assert result_of(anything) is result_of(lambda x: x) is results_of(viewed) is None
    assert either(Click, View) == Click | View and either(Click, None) is None


def test_a_source_with_a_type_is_decoded_and_one_of_texts_is_not() -> None:
    graph = fs.Graph("g")
    lines, records = graph.source("lines", str), graph.source("records", fs.KafkaRecord)
    decoded = graph.source("clicks", Click)
    assert [v.kind for v in graph.vertices] == [Kind.SOURCE, Kind.SOURCE, Kind.SOURCE, Kind.MAP]
    assert (lines.items, records.items, decoded.items) == (str, fs.KafkaRecord, Click)
    decoder = graph.vertices[3].function
    assert graph.vertices[3].name == "fs.decoder(Click)" and decoder is not None
    assert decoder('{"user": "a", "page": "b"}') == Click("a", "b")


def test_a_timed_source_knows_its_events_too() -> None:
    graph = fs.Graph("g")
    with pytest.raises(
        GraphError, match=r"test_fields\.py:\d+: fs\.field\(\"usr\"\): Click has no field 'usr'"
    ):
        graph.source("clicks", Click, at="usr")
    stream = graph.source("clicks", Click, at=lambda _: 1, unit="s", late="1s")
    assert stream.items is Click
    with pytest.raises(GraphError, match="Click has no field 'pge'"):
        stream.window(fs.tumbling("1m"), key="pge")
