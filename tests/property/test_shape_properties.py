"""Payload classes that change: what is read of an older shape is what plain Python makes of its fields."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import flamestream as fs
from flamestream.model import payload as codec
from flamestream.model.payloads import encoding
from flamestream.model.payloads import state as states
from flamestream.model.payloads.exact import exact
from flamestream.model.payloads.older import classes, know, settled
from flamestream.model.payloads.registry import OlderShape
from flamestream.model.payloads.shapes import PayloadClass, fit
from support.payloads import defined

TYPES: Mapping[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**53), 2**53),
    "float": st.floats(allow_nan=False),
    "str": st.text(max_size=3),
    "int | None": st.none() | st.integers(0, 9),
    "float | None": st.none() | st.floats(0, 9),
    "fs.Vector[int]": st.lists(st.integers(0, 9), max_size=3).map(fs.Vector),
}
WIDER = {
    "int": ["int", "float", "int | None", "float | None", "Any", "str | int"],
    "str": ["str", "str | None", "object"],
    "int | None": ["int | None", "None | int", "float | None"],
    "float | None": ["float | None", "None | float"],
    "float": ["float", "Any", "float | None"],
    "fs.Vector[int]": ["fs.Vector[int]", "Vector[int] | None"],
}
NAMES = st.sampled_from(["a", "b", "c", "d"])


@st.composite
def evolutions(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, tuple[str, str | None]]]:
    """(types of the fields of a class, its fields later: type, and the field of before that each is)."""
    before = draw(st.dictionaries(NAMES, st.sampled_from(list(TYPES)), min_size=1))
    kept = draw(st.lists(st.sampled_from(list(before)), unique=True))
    after: dict[str, tuple[str, str | None]] = {}
    for field in kept:
        name = field if draw(st.booleans()) else f"{field}_later"
        after[name] = draw(st.sampled_from(WIDER[before[field]])), field
    for number in range(draw(st.integers(0, 2))):
        after[f"new{number}"] = draw(st.sampled_from(list(TYPES))), None
    return before, dict(draw(st.permutations(list(after.items()))))


def annotated(after: Mapping[str, tuple[str, str | None]], *, as_text: bool) -> Iterator[tuple[str, Any]]:
    for name, (kind, was) in after.items():
        if was is None or was == name:
            yield name, kind
        elif as_text:
            yield name, f"Annotated[{kind}, fs.was({was!r})]"
        else:
            yield name, Annotated[kind, fs.was(was)]


def later(after: Mapping[str, tuple[str, str | None]], as_text: bool = False) -> Any:
    """The class of now; all its fields have defaults."""
    return defined("Drawn", dict(annotated(after, as_text=as_text)), dict.fromkeys(after, None))


def converted(kind: str, value: Any) -> Any:
    return float(value) if type(value) is int and "int" not in kind and "float" in kind else value


@given(evolutions(), st.data(), st.booleans())
def test_a_value_is_read_as_plain_python_would_make_it(
    drawn: tuple[dict[str, str], dict[str, tuple[str, str | None]]], data: st.DataObject, as_text: bool
) -> None:
    before, after = drawn
    cls = defined("Drawn", before)
    values = {name: data.draw(TYPES[kind]) for name, kind in before.items()}
    stored = codec.encode((1, fs.Map({"k": cls(**values)})))
    items = codec.encode_items([(b"m", cls(**values))])
    shapes = [shape for shape in classes() if shape.name == "support.payloads:Drawn"]
    now = later(after, as_text)
    know(shapes)
    wanted = now(**{name: converted(kind, values[was]) for name, (kind, was) in after.items() if was})
    assert exact(codec.decode(stored)) == exact((1, fs.Map({"k": wanted})))
    assert exact(codec.decode_items(items)[0][1]) == exact(wanted)
    assert codec.encode(codec.decode(codec.encode(wanted))) == codec.encode(wanted)


@given(evolutions(), st.data())
def test_changes_are_applied_to_what_was_stored(
    drawn: tuple[dict[str, str], dict[str, tuple[str, str | None]]], data: st.DataObject
) -> None:
    """Whatever places the fields have now."""
    before, after = drawn
    cls = defined("Drawn", {**before, "all": "fs.Map[str, Drawn]"})

    def made(number: int) -> Any:
        values = {name: data.draw(TYPES[kind]) for name, kind in before.items()}
        return cls(**values, all=fs.Map({str(number): cls(**values, all=fs.Map())}))

    history = [made(0)]
    for number in range(1, 4):
        new = made(number)
        history.append(
            cls(
                **{n: getattr(new, n) for n in before},
                all=history[-1].all.set(str(number), new.all[str(number)]),
            )
        )
    rows = [codec.encode(history[0])]
    for old, new in itertools.pairwise(history):
        change = states.delta_state(old, new)
        assume(change is not None)
        rows.append(change or b"")
    shapes = [shape for shape in classes() if shape.name == "support.payloads:Drawn"]
    now = later({**after, "all": ("fs.Map[str, Drawn]", "all")})
    know(shapes)

    def read() -> Any:
        value = encoding.decode(rows[0])
        for row in rows[1:]:
            value = states.apply_state_delta(value, row)
        return value

    def of_now(value: Any) -> Any:
        fields = {n: converted(kind, getattr(value, was)) for n, (kind, was) in after.items() if was}
        return now(**fields, all=fs.Map({k: of_now(v) for k, v in value.all.items()}))

    assert exact(settled(read)) == exact(of_now(history[-1]))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (kind.replace("fs.", ""), wider.replace("fs.", ""))
        for kind, all_of in WIDER.items()
        for wider in all_of
    ]
    + [("C[int | str]", "C[int | str] | None")],
)
def test_a_wider_type_fits(before: str, after: str) -> None:
    assert isinstance(
        fit(PayloadClass("m:C", (f"a: {before}",)), PayloadClass("m:C", (f"a: {after}",))), list
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("float", "int"), ("int | None", "int"), ("str", "int"), ("bool", "float"), ("Any", "int"),
        ("Vector[int]", "Vector[float]"), ("C[int | str]", "C[int]"), ("int", "C[int]")
    ],
)  # fmt: skip
def test_any_other_type_does_not(before: str, after: str) -> None:
    told = fit(PayloadClass("m:C", (f"a: {before}",)), PayloadClass("m:C", (f"a: {after}",)))
    assert isinstance(told, str) and f"has {before} in field 'a', which is {after} now" in told


def test_a_struct_and_a_dataclass_change_alike() -> None:
    """Also one that has defaults made by functions."""

    def struct(fields: list[Any]) -> Any:
        made = msgspec.defstruct("Packed", fields, frozen=True, module="support.payloads")
        return fs.payload_type(made)

    old = struct([("a", int)])
    stored = codec.encode(old(3))
    shapes = [shape for shape in classes() if shape.name == "support.payloads:Packed"]
    new = struct([("a", float), ("b", float, msgspec.field(default_factory=lambda: 1.5))])
    know(shapes)
    assert codec.decode(stored) == new(b=1.5, a=3.0)


def test_what_no_float_has_is_not_guessed() -> None:
    cls = defined("Drawn", {"a": "int"})
    stored = [codec.encode(cls(value)) for value in (2**60 + 1, True, "text")]
    shapes = [shape for shape in classes() if shape.name == "support.payloads:Drawn"]
    defined("Drawn", {"a": "float"})
    know(shapes)
    for data in stored:
        with pytest.raises(
            OlderShape, match=r"field 'a' of support.payloads:Drawn was an int and is a float now"
        ):
            codec.decode(data)
