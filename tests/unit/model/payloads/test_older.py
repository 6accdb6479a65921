"""Shapes of payload classes: how a class says its own, and how values of another one are met."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, Union

import msgspec
import pytest

import flamestream as fs
from flamestream.model.errors import Corrupt, PayloadError
from flamestream.model.payload import ErrorValue, decode, decode_items, encode, encode_items
from flamestream.model.payloads import older
from flamestream.model.payloads.older import Older, classes, know, marks, renewed
from flamestream.model.payloads.registry import PLANS, OlderShape, tag_of
from flamestream.model.payloads.shapes import PayloadClass, shape_of
from support.payloads import defined

MODULE = "support.payloads"


def shape(name: str) -> PayloadClass:
    return next(each for each in classes() if each.name == f"{MODULE}:{name}")


def changed(of: dict[str, Any], to: dict[str, Any], **defaults: Any) -> tuple[Any, Any]:
    """A class, and the class that takes its place; what has the first one's fields is known."""
    first = defined("Changed", of)
    before = shape("Changed")
    value = first(*range(len(of)))
    stored = encode((value, fs.Vector([value]), fs.Map({1: (value,)})))
    now = defined("Changed", to, defaults)
    know([before])
    return stored, now


@pytest.mark.parametrize(
    ("annotation", "written"),
    [
        (int, "int"), (None, "None"), ("  int ", "int"), (Any, "Any"), ("typing.Any", "Any"),
        (Optional[int], "int | None"),  # noqa: UP045 (as older code writes it)
        ("Optional[int]", "int | None"), (int | None, "int | None"),
        (Union[int, str], "int | str"),  # noqa: UP007
        ("Union[int, str]", "int | str"), ("int|str", "int | str"),
        (tuple[int, ...], "tuple[int, ...]"), ("Tuple[int, ...]", "tuple[int, ...]"),
        (fs.Map[str, int], "Map[str, int]"), ("fs.Map[str, int]", "Map[str, int]"),
        ("Map['str', 'int']", "Map[str, int]"),
        (Annotated[int, fs.was("b")], "int"), ("Annotated[int, fs.was('b')]", "int"),
        (Literal["a", 1], "Literal['a', 1]"),
        ("Literal['a', 1]", "Literal['a', 1]"), ("datetime.datetime", "datetime"), ("not a type", "not a type"),
        (ErrorValue, "ErrorValue"), (Annotated[fs.Vector[int] | None, "of ours"], "Vector[int] | None"),
    ],
)  # fmt: skip
def test_a_type_has_the_same_words_however_it_is_written(annotation: Any, written: str) -> None:
    """Postponed annotations are texts, and a class may be defined before what they name."""
    cls = type("Cls", (), {"__annotations__": {"a": annotation}})
    assert shape_of(cls, ("a",)).fields == (f"a: {written}",)


def test_a_class_is_known_by_all_of_its_fields_and_their_types() -> None:
    tags = [
        shape_tag({"a": int}),
        shape_tag({"a": float}),
        shape_tag({"b": int}),
        shape_tag({"a": int, "b": int}),
    ]
    assert len(set(tags)) == 4
    assert shape_tag({"a": "int"}) == shape_tag({"a": Annotated[int, fs.was("z")]}) == tags[0]


def shape_tag(of: dict[str, Any]) -> int:
    defined("Drawn", of)
    return shape("Drawn").tag


def test_our_own_classes_are_known_by_their_names() -> None:
    """What is stored of them is read by every release."""
    assert PLANS[ErrorValue].tag == tag_of("flamestream.model.payload:ErrorValue")
    assert not [each for each in classes() if each.name.startswith("flamestream.")]


def test_a_value_of_another_shape_is_read_wherever_it_is() -> None:
    stored, now = changed({"a": int, "b": int}, {"b": int, "c": "int | None"}, c=None)
    value = now(1, None)
    assert decode(stored) == (value, fs.Vector([value]), fs.Map({1: (value,)}))
    assert decode(renewed(stored)) == decode(stored) and renewed(renewed(stored)) == renewed(stored) != stored


def test_a_shape_that_nobody_names_is_corrupt_and_says_what_to_do() -> None:
    value = encode(defined("Unknown", {"a": int})(1))
    defined("Unknown", {"a": int, "b": int}, {"b": 1})
    with pytest.raises(Corrupt, match="if its fields were others when it was stored, put them back"):
        decode(value)


def test_a_class_that_is_gone_is_named_with_its_fields() -> None:
    know([PayloadClass("shop:Gone", ("a: int", "b: str"))])
    data = older.begins(PayloadClass("shop:Gone", ("a: int", "b: str"))) + encode(1) + encode("x")
    with pytest.raises(
        OlderShape, match=r"a shop:Gone is stored, with the fields \(a: int, b: str\), and this"
    ):
        decode(data)
    assert marks([PayloadClass("shop:Gone", ("a: int", "b: str"))])[0].problem


@pytest.mark.parametrize("collection", [lambda key: fs.Set([key]), lambda key: fs.Map([((key, 1), 2)])])
def test_what_is_found_by_its_bytes_does_not_change(collection: Any) -> None:
    first = defined("Changed", {"a": int})
    before, data = shape("Changed"), encode(collection(first(1)))
    defined("Changed", {"a": int, "b": int}, {"b": 0})
    know([before])
    with pytest.raises(
        OlderShape, match="what is a key is found by all its fields, so its class stays as it is"
    ):
        decode(data)


def test_renames_that_go_in_a_circle_are_refused_with_the_class() -> None:
    with pytest.raises(PayloadError, match="field 'a' was 'b', which is a renamed field itself"):
        defined("Circle", {"a": Annotated[int, fs.was("b")], "b": Annotated[int, fs.was("a")]})
    with pytest.raises(PayloadError, match=r"fs\.was takes the names that the field had"):
        fs.was()


def test_several_names_are_tried_one_after_the_other() -> None:
    stored, now = changed({"a": int}, {"c": "Annotated[int, fs.was('b', 'a')]"})
    assert decode(stored)[0] == now(0)


def test_no_reader_ever_gives_a_value_as_it_was_stored() -> None:
    """The kernel reads a collection by Python's functions, which must not leave one in it."""
    stored, now = changed({"a": int}, {"a": int, "b": int}, b=5)
    items = encode_items([(b"m", 1)])[:-1] + stored
    found = [decode(stored), *(each for _, each in decode_items(items))]
    assert not any(
        isinstance(each, Older) for value in found for each in (value[0], *value[1], *value[2].values())
    )
    assert found[0][1] == fs.Vector([now(0, 5)])


def test_a_struct_and_a_frozen_dataclass_say_their_defaults() -> None:
    @fs.payload_type
    class Packed(msgspec.Struct, frozen=True):
        a: int
        b: "fs.Vector[int]" = msgspec.field(default_factory=fs.Vector)

    @fs.payload_type
    @dataclass(frozen=True)
    class Plain:
        a: int
        b: str = "x"

    said = {each.name.rpartition(".")[2]: each for each in classes() if "say_their_defaults" in each.name}
    assert said["Packed"].defaults == said["Plain"].defaults == ("b",)
    assert (said["Packed"].fields, said["Plain"].fields) == (
        ("a: int", "b: Vector[int]"),
        ("a: int", "b: str"),
    )
    assert Packed(1) and Plain(1)
