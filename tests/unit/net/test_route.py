"""The route to a coordinator: where the next try goes."""

import pytest

from flamestream.model.errors import Bug
from flamestream.net.route import OFTEN, Route

OWN, FIRST = "c-1.space.svc:7700", "c.space.svc:7700"


def tries(route: Route, number: int) -> list[str]:
    """The addresses of so many tries, all in vain."""
    found = []
    for _ in range(number):
        found.append(route.address)
        route.failed()
    return found


def test_another_address_is_asked_now_and_then() -> None:
    assert tries(Route(f"{OWN},{FIRST}"), 2 * OFTEN + 2) == 2 * [*([OWN] * OFTEN), FIRST]
    others = tries(Route("a.s:1,b.s:1,c.s:1"), 3 * (OFTEN + 1))
    assert [each for each in others if each != "a.s:1"] == ["b.s:1", "c.s:1", "b.s:1"]


def test_an_only_address_is_always_dialled() -> None:
    assert set(tries(Route(FIRST), 40)) == {FIRST}


def test_who_is_led_goes_there_until_nobody_is_there() -> None:
    route = Route(FIRST)
    route.lead("c-2.space.svc:7700")
    assert tries(route, OFTEN + 2) == [*["c-2.space.svc:7700"] * (OFTEN + 1), FIRST]


def test_who_was_led_dials_there_again_behind_a_link_that_broke() -> None:
    route = Route(FIRST)
    route.lead(OWN)
    tries(route, OFTEN)
    route.proved()
    assert tries(route, OFTEN) == [OWN] * OFTEN


@pytest.mark.parametrize(
    "astray",
    ["evil.example:7700", "c-1.other.svc:7700", "10.0.0.1:7700", "", "c-1.space.svc", "c-1.space.svc:99999"],
)
def test_nobody_is_led_out_of_the_domain(astray: str) -> None:
    route = Route(f"{OWN},{FIRST}")
    for _ in range(OFTEN):
        assert route.address == OWN
        route.lead(astray)
    assert route.address == FIRST, "it counts as a try that failed"


def test_an_address_of_a_configuration_is_an_address() -> None:
    with pytest.raises(Bug, match="host:port"):
        Route("c.space.svc")
