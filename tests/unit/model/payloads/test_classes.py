"""@payload_type: which classes may be payloads, and that they come back as they were."""

import dataclasses
import enum
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from flamestream.model import payload
from flamestream.model.errors import Corrupt, PayloadError
from flamestream.model.payload import event, payload_type
from flamestream.model.payloads.registry import FROM_WIRE, Plan, register, tag_of


@payload_type
@dataclass(frozen=True)
class Derived:
    """Its constructor neither takes all fields nor keeps what it takes."""

    shown: int = field(init=False)
    given: dataclasses.InitVar[int] = 0

    def __post_init__(self, given: int) -> None:
        object.__setattr__(self, "shown", given + 1)


@payload_type
@dataclass(frozen=True, slots=True, kw_only=True)
class OnlyNamed:
    right: int
    left: str = "l"


@payload_type
class NamedOnly(msgspec.Struct, frozen=True, kw_only=True):
    count: int
    name: str = "n"


@payload_type
class Tagged(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    left: int
    right: str


@payload_type
class Model(BaseModel, frozen=True):
    left: int
    right: str = "r"


@event
class Sale:
    shop: str
    cents: int = 0


@payload_type
@dataclass(frozen=True, slots=True)
class Nothing:
    pass


@payload_type
@dataclass(frozen=True, slots=True)
class One:
    only: Any


@payload_type
@dataclass(frozen=True, slots=True)
class Longer(One):
    more: Any


@pytest.mark.parametrize(
    "value",
    [
        Derived(4),
        OnlyNamed(right=1),
        NamedOnly(count=1),
        Tagged(1, "r"),
        Nothing(),
        One((1,)),
        Longer(1, 2),
        Model(left=1),
        Sale("n"),
    ],
)
def test_an_instance_comes_back_as_it_was_whatever_its_constructor_does(value: Any) -> None:
    decoded = payload.decode(payload.encode(value))
    assert type(decoded) is type(value)
    assert decoded == value


def test_a_subclass_and_its_base_differ() -> None:
    assert payload.encode(One(1)) != payload.encode(Longer(1, 1))


def test_a_subclass_that_is_not_decorated_is_refused() -> None:
    class Sub(One):
        pass

    with pytest.raises(
        PayloadError, match=r"Sub is not a payload: decorate its class with @fs\.payload_type"
    ):
        payload.check(Sub(1))
    with pytest.raises(PayloadError, match="no dataclass"):
        payload_type(Sub)


def _plain() -> type:
    class Plain:
        pass

    return Plain


def _thawed() -> type:
    @dataclass
    class Thawed:
        x: int

    return Thawed


def _thawed_struct() -> type:
    class ThawedStruct(msgspec.Struct):
        x: int

    return ThawedStruct


def _initialised_struct() -> type:
    class Initialised(msgspec.Struct, frozen=True):
        x: int

        def __post_init__(self) -> None:
            pass

    return Initialised


def _thawed_model() -> type:
    class ThawedModel(BaseModel):
        x: int

    return ThawedModel


def _initialised_model() -> type:
    class InitialisedModel(BaseModel, frozen=True):
        x: int

        def model_post_init(self, context: Any) -> None:
            pass

    return InitialisedModel


def _number() -> type:
    @dataclass(frozen=True)
    class Number(int):
        x: int

    return Number


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_plain, r"Plain is no dataclass: .*put @fs\.event above the class"),
        (_thawed, r"Thawed is not frozen.*use @dataclass\(frozen=True\)"),
        (_thawed_struct, r"ThawedStruct is not frozen.*class ThawedStruct\(msgspec\.Struct, frozen=True\)"),
        (_initialised_struct, r"Initialised has a __post_init__.*use a frozen dataclass"),
        (_thawed_model, r"ThawedModel is not frozen.*class ThawedModel\(BaseModel, frozen=True\)"),
        (_initialised_model, r"InitialisedModel has a model_post_init"),
        (_number, r"Number cannot be a payload type, because it is a int too"),
        (lambda: 5, r"decorates a class, not a int"),
    ],
)
def test_a_class_that_cannot_be_a_payload_type_is_refused_with_the_reason(make: Any, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        payload_type(make())


def test_two_classes_with_one_tag_are_refused_at_registration() -> None:
    clash = Plan(
        _plain(),
        tag_of("support.other:One"),
        "support.other:One",
        lambda v, r: [],
        lambda w, r: None,
        lambda v, r: 1,
    )
    register(clash)
    with pytest.raises(PayloadError, match=r"support\.third:Two have the same tag \d+: rename one of them"):
        register(dataclasses.replace(clash, cls=_plain(), name="support.third:Two"))


def test_a_class_that_is_defined_anew_takes_over_and_old_instances_are_refused() -> None:
    def define() -> Any:
        @payload_type
        @dataclass(frozen=True, slots=True)
        class Reloaded:
            x: int

        return Reloaded

    before, after = define(), define()
    assert type(payload.decode(payload.encode(after(1)))) is after
    with pytest.raises(PayloadError, match="defined anew"):
        payload.encode(before(1))


def test_another_number_of_fields_is_corrupt_and_names_the_class() -> None:
    tag = next(tag for tag in FROM_WIRE if tag == tag_of(f"{One.__module__}:One"))
    with pytest.raises(Corrupt, match=r":One has 1 fields \(only\), but 2 are stored: another version"):
        payload.decode(msgspec.msgpack.encode([tag, 1, 2]))


def test_an_event_is_a_frozen_dataclass_with_slots_and_a_payload() -> None:
    sale = Sale("north", cents=5)
    assert payload.decode(payload.encode(sale)) == sale
    assert dataclasses.is_dataclass(Sale) and not hasattr(sale, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        sale.cents = 6  # type: ignore[misc]


def test_an_event_is_no_struct_and_no_enum() -> None:
    others: list[type] = [type("S", (msgspec.Struct,), {}), enum.Enum("E", "A")]  # type: ignore[list-item]
    for other in others:
        with pytest.raises(PayloadError, match=r"use @fs\.payload_type"):
            event(other)
