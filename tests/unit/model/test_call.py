"""Calls in a graph: what they are refused for, what `Graph.run` makes of them, and what an answer becomes."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

import flamestream as fs
from flamestream.core.protocol.inventory import source_keys
from flamestream.core.protocol.stored_rows import Numbers
from flamestream.model.calls.call import CallFunction, answered, calls_of, change_calls, id_of
from flamestream.model.errors import GraphError, UserError


@fs.event
class Priced:
    order: int
    price: int


@fs.call(timeout="5s")
async def priced(order: int) -> Priced:
    await asyncio.sleep(0)
    return Priced(order, 3 * order)


def listed(order: int, call: fs.Call) -> Any:
    return [order, call.attempt]


async def priced_together(orders: list[int]) -> list[Priced]:
    return [Priced(order, 3 * order) for order in orders]


async def priced_often(order: int) -> list[Priced]:
    return [Priced(order, 3 * order)] * 2


def failing(order: int) -> int:
    raise ValueError(f"no {order}")


def graph_of(*calls: Any, **named: Any) -> fs.Graph:
    graph = fs.Graph("orders")
    orders = graph.source("orders", int)
    for number, call in enumerate(calls):
        orders.call(call, **named).sink(f"out{number}")
    return graph


def test_run_makes_the_calls() -> None:
    assert graph_of(priced, listed).run(orders=[1, 2]) == {
        "out0": [Priced(1, 3), Priced(2, 6)],
        "out1": [1, 1, 2, 1],
    }


def test_a_call_behind_a_call_asks_for_its_answers() -> None:
    graph = fs.Graph("orders")
    once = graph.source("orders", int).call(priced)
    once.map(lambda found: found.price).call(priced, name="again").sink("out")
    assert graph.run(orders=[1]) == {"out": [Priced(3, 9)]}


def test_run_gives_a_batch_of_one_to_a_function_that_takes_a_list() -> None:
    @fs.call(batch=64)
    async def together(orders: list[int], calls: list[fs.Call]) -> list[Any]:
        return [[order, call.attempt] for order, call in zip(orders, calls, strict=True)]

    assert graph_of(together).run(orders=[1, 2]) == {"out0": [1, 1, 2, 1]}


@fs.payload_type
@dataclass(frozen=True)
class Timed:
    order: int
    at: int


async def timed(order: int) -> Timed:
    return Timed(order, 7 * order)


def test_results_with_event_time_have_windows_which_the_end_of_the_calls_closes() -> None:
    graph = fs.Graph("orders")
    stamped = graph.source("orders", int).call(timed, at="at", unit="s", late="5s")
    counts = stamped.window(fs.tumbling("10s"), key=lambda item: 0).count()
    counts.sink("counts")
    again = counts.call(lambda window: Timed(window.value, window.start), name="again", at="at", unit="s")
    again.window(fs.tumbling("1m"), key=lambda item: 0).total("order").map(lambda each: each.value).sink(
        "sums"
    )
    found = graph.run(orders=[0, 1, 2, 10])
    assert [(window.start, window.value) for window in found["counts"]] == [(0, 2), (10, 1), (70, 1)]
    assert found["sums"] == [3, 1]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ({"late": "1s"}, "late means nothing without at"),
        ({"ath": "at"}, "stream.call has no ath="),
        ({"at": "att", "unit": "s"}, "'att'.*did you mean 'at'"),
        ({"at": "at"}, "event times are of datetime: say unit="),
        ({"at": "at", "unit": "y"}, "unit='y' is none of"),
        ({"at": "at", "unit": "s", "late": "5"}, "late"),
    ],
)
def test_a_time_that_is_none_is_refused(times: dict[str, Any], message: str) -> None:
    graph = fs.Graph("orders")
    with pytest.raises(GraphError, match=message):
        graph.source("orders", int).call(timed, **times)


@pytest.mark.parametrize(
    ("call", "items"),
    [
        (fs.call(timeout="5s")(priced), Priced),
        (fs.call(batch=4)(priced_together), Priced),
        (priced_often, Priced),
        (listed, None),
    ],
)
def test_the_type_of_its_results_is_known_where_the_function_says_it(call: Any, items: Any) -> None:
    graph = fs.Graph("orders")
    assert graph.source("orders", int).call(call).items is items


def test_run_works_inside_a_loop_that_runs() -> None:
    """As in a notebook."""

    async def cell() -> Any:
        return graph_of(priced).run(orders=[1])

    assert asyncio.run(cell()) == {"out0": [Priced(1, 3)]}


def test_what_a_call_raises_is_an_error_item_that_names_it() -> None:
    with pytest.raises(UserError, match=r"test_call\.failing raised ValueError: .*no 7.*'failing\(\)'"):
        graph_of(failing).run(orders=[7])


def test_what_is_no_payload_is_the_calls_error() -> None:
    results, error = answered(failing, 7, {1: 2})
    assert not results
    assert error is not None
    assert error.error == "PayloadError"


def test_a_function_with_settings_is_still_the_function() -> None:
    assert isinstance(priced, CallFunction)
    assert asyncio.run(priced(2)) == Priced(2, 6)


def test_the_type_of_answers_is_known() -> None:
    with pytest.raises(GraphError, match=r"Priced has no field 'prise'.*did you mean 'price'"):
        fs.Graph("orders").source("orders", int).call(priced).map(fs.field("prise"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"timeout": "0s"}, "timeout"),
        ({"retries": -1}, "retries=-1: it must be a whole number of at least 0"),
        ({"retries": "3"}, "retries='3': it must be a whole number"),
        ({"retries": True}, "retries=True: it must be a whole number"),
        ({"fronts": 1.5}, "fronts=1.5: it must be a whole number"),
        ({"retry_on": "x"}, "it is a class of exceptions, or a tuple of them"),
        ({"concurrency": 0}, "concurrency=0"),
        ({"pending": 0}, "pending=0"),
        ({"fronts": 65}, "at most 64"),
        ({"order": "time"}, "'none' or 'key'"),
        ({"doubt": "maybe"}, "'again' or 'never'"),
        ({"doubt": "never", "retries": 1}, "a second try could be a second effect"),
        ({"doubt": "never", "give_up_after": "1m"}, "what is tried once is given up behind that"),
        ({"retries": 0, "give_up_after": "1m"}, "retries=0: what is tried once is given up behind that"),
        ({"give_up_after": "0s"}, "give_up_after"),
        ({"doubt": "never", "cache": "1s"}, "a cache is for calls without an effect"),
        ({"rate": 0}, "rate=0: it is a number of tries a second, above 0"),
        ({"rate": "9/s"}, "rate='9/s': it is a number"),
        ({"batch": 0}, "batch=0"),
        ({"batch": 20, "pending": 10}, "batch=20 is more than pending=10"),
        ({"linger": "5"}, "linger"),
        ({"cache": 5}, "cache"),
        ({"breaker": "OSError"}, "breaker='OSError': it is a class of exceptions"),
    ],
)
def test_settings_without_meaning_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(GraphError, match=said):
        fs.call(**settings)


@pytest.mark.parametrize(
    ("said", "changed", "tries"),
    [
        ({"retries": 4}, {"doubt": "never"}, 1),
        ({"doubt": "never"}, {"doubt": "again"}, 11),
        ({"doubt": "never"}, {"doubt": "again", "tries": 3}, 3),
        ({"retries": 4}, {"doubt": "again"}, 5),
        ({"give_up_after": "10m"}, {"doubt": "never"}, 1),
    ],
)
def test_another_doubt_brings_its_own_tries(
    said: dict[str, Any], changed: dict[str, int | str], tries: int
) -> None:
    graph = graph_of(fs.call(**said)(failing))
    change_calls(graph, {"failing()": changed})
    (call,) = calls_of(graph).values()
    assert (call.settings.doubt, call.settings.most_tries) == (changed["doubt"], tries)


def test_order_by_key_needs_a_key() -> None:
    in_order = fs.call(order="key")(failing)
    with pytest.raises(GraphError, match="say which, as key="):
        graph_of(in_order)


def test_two_calls_of_one_name_are_refused() -> None:
    with pytest.raises(GraphError, match=r"two calls priced\(\): say stream.call\(..., name="):
        graph_of(priced, priced)


def test_a_call_under_another_name_is_stored_under_the_one_it_had() -> None:
    graph = fs.Graph("g")
    graph.source("items").call(priced, name="new", was="old").sink("out")
    (sink,) = graph.calls.values()
    assert (sink.name, sink.stored_as) == ("new()", "old()")
    assert source_keys(graph) == {"items": "items", "new()": "old()"}
    before = fs.Graph("g")
    before.source("items").call(priced, name="old").sink("out")
    assert [*Numbers(graph).of_sinks.values()] == [*Numbers(before).of_sinks.values()]


@pytest.mark.parametrize("first", [{"name": "old"}, {"name": "older", "was": "old()"}])
def test_requests_are_of_one_call(first: Any) -> None:
    items = fs.Graph("g").source("items")
    items.call(priced, **first).sink("out")
    with pytest.raises(GraphError, match=r"call new\(\) of graph 'g' would have the requests of call old"):
        items.call(priced, name="new", was="old")


def test_the_name_that_a_call_had_is_a_name() -> None:
    with pytest.raises(GraphError, match=r"was=3: it is the name that the call had"):
        fs.Graph("g").source("items").call(priced, was=3)  # type: ignore[call-overload]


def test_ids_differ_by_job_call_and_request() -> None:
    ids = {
        id_of(job, call, request) for job in ("a", "ab") for call in ("b", "") for request in (b"x", b"bx")
    }
    assert len(ids) == 8


def test_settings_may_be_left_out_with_their_brackets() -> None:
    @fs.call
    def plain(order: int) -> int:
        return order

    assert graph_of(plain).run(orders=[1]) == {"out0": [1]}


@pytest.mark.parametrize("function", [str, lambda order, limit=3: (order, limit)])
def test_any_function_of_an_item_will_do(function: Any) -> None:
    assert len(graph_of(function, name="asked").run(orders=[1])["out0"]) == 1


@pytest.mark.parametrize(
    "function", [lambda: 1, lambda a, b, c: 1, lambda order, *, call: 1], ids=["none", "three", "named"]
)
def test_one_of_no_item_or_of_more_is_refused(function: Any) -> None:
    with pytest.raises(GraphError, match="is called with an item, and with an"):
        graph_of(function, name="asked")


def test_one_that_yields_is_refused() -> None:
    def some(order: int) -> Any:
        yield order

    async def others(order: int) -> Any:
        yield order

    for function in (some, others):
        with pytest.raises(GraphError, match=r"yields, and a call gives .*: gather them in a list"):
            graph_of(function)


@pytest.mark.parametrize("name", ["", "a/b", "a b", "x" * 64, 1])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(GraphError, match="the name of a call has letters, digits"):
        graph_of(failing, name=name)


def test_what_asks_is_refused_where_a_pure_function_is_called() -> None:
    items = fs.Graph("orders").source("orders", int)
    with pytest.raises(GraphError, match=r"priced asks the outside.*say stream\.call"):
        items.map(priced)
    with pytest.raises(GraphError, match=r"asks the outside.*say stream\.call"):
        items.filter(priced.function)  # type: ignore[arg-type]


def test_what_would_end_the_process_is_an_error_item() -> None:
    def leaves(order: int) -> int:
        raise SystemExit(3)

    with pytest.raises(UserError, match=r"Stopped: .*it raised SystemExit: 3"):
        graph_of(leaves).run(orders=[1])
