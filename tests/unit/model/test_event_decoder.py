"""Decoders: what sources give becomes instances of the class that the graph says, strictly, and what does not
fit is told by its field."""

import enum
import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal

import msgspec
import pytest
from pydantic import BaseModel

import flamestream as fs
from flamestream.model import payload
from flamestream.model.errors import PayloadError, RecordError
from flamestream.model.event_decoder import decoder


@fs.payload_type
class Kind(enum.Enum):
    SEEN = "seen"


@fs.event
class Place:
    town: str
    since: datetime | None = None


@fs.event
class Click:
    user: str
    at: datetime
    cents: int = 0
    price: Decimal | None = None
    day: date | None = None
    kind: Kind = Kind.SEEN
    place: Place | None = None
    tags: tuple[str, ...] = ()
    seen: fs.Vector[int] = fs.Vector()
    mode: Literal["a", "b"] = "a"


class Struct(msgspec.Struct, frozen=True):
    user: str
    cents: int


class Model(BaseModel, frozen=True):
    user: str
    cents: int
    at: datetime | None = None


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
MICROSECONDS = 1_767_355_200_000_000


def test_a_line_of_json_is_an_event_of_all_its_fields() -> None:
    line = """{"user": "ann", "at": "2026-01-02T12:00:00Z", "cents": 5, "price": "1.50", "day": "2026-01-02", "kind": "seen",
        "place": {"town": "Ulm", "since": "2026-01-02T12:00:00Z"}, "tags": ["x"], "seen": [1], "mode": "b", "unknown": []}"""  # noqa: E501
    click = Click(
        "ann",
        NOON,
        5,
        Decimal("1.50"),
        date(2026, 1, 2),
        Kind.SEEN,
        Place("Ulm", NOON),
        ("x",),
        fs.Vector([1]),
        "b",
    )
    assert decoder(Click)(line) == decoder(Click)(line.encode()) == click
    assert payload.decode(payload.encode(click)) == click


def test_a_row_has_numbers_for_its_times_also_inside() -> None:
    row = fs.Map(
        {
            "user": "ann",
            "at": MICROSECONDS,
            "day": "2026-01-02",
            "place": fs.Map({"town": "Ulm", "since": MICROSECONDS}),
        }
    )
    assert decoder(Click)(row) == Click("ann", NOON, day=date(2026, 1, 2), place=Place("Ulm", NOON))
    with pytest.raises(RecordError, match=r"a Map is no Click: field `cents`: Expected `int`, got `str`"):
        decoder(Click)(row.set("cents", "5"))


def test_a_row_of_texts_has_numbers_as_texts_and_none_as_nothing() -> None:
    row = fs.Map({"user": "", "at": "2026-01-02T12:00:00Z", "cents": "5", "price": "", "more": ""})
    assert decoder(Click)(row) == Click("", NOON, 5)
    with pytest.raises(RecordError, match=r"field `cents`: Expected `int`, got `str`"):
        decoder(Click)(row.set("cents", "five"))


def test_a_kafka_record_is_its_value_and_an_event_itself() -> None:
    record = fs.KafkaRecord("t", 0, 0, 0, None, '{"town": "Ulm"}', ())
    assert decoder(Place)(record) == Place("Ulm")
    assert decoder(Place)(Place("Ulm")) == Place("Ulm")


@pytest.mark.parametrize("cls", [Struct, Model])
def test_structs_and_models_are_decoded_and_payloads(cls: Any) -> None:
    made = decoder(cls)('{"user": "ann", "cents": 5}')
    assert made == cls(user="ann", cents=5) == decoder(cls)(fs.Map({"user": "ann", "cents": 5}))
    assert payload.decode(payload.encode(made)) == made
    with pytest.raises(RecordError, match=rf"a str is no {cls.__name__}: field `cents`: .*int.*, got `str`"):
        decoder(cls)('{"user": "ann", "cents": "five"}')
    with pytest.raises(RecordError, match="cents"):
        decoder(cls)('{"user": "ann"}')


def test_a_model_takes_a_rows_times() -> None:
    assert decoder(Model)(fs.Map({"user": "ann", "cents": 5, "at": MICROSECONDS})).at == NOON
    assert decoder(Model)(fs.Map({"user": "ann", "cents": "5", "at": ""})).cents == 5


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ('{"user": "a"}', "Object missing required field `at`"),
        ('{"user": 1, "at": "2026-01-02T12:00:00Z"}', "field `user`: Expected `str`, got `int`"),
        ('{"user": "a", "at": 1767355200}', "field `at`: Expected `datetime`, got `int`"),
        ('{"user": "a", "at": "noon"}', "field `at`: Invalid RFC3339"),
        ('{"user": "a", "at": "2026-01-02T12:00:00Z", "place": {"town": 1}}', r"field `place\.town`"),
        ('{"user": ', "a str is no Click: Input data was truncated"),
        (b"\xff", "a bytes is no Click"),
        ("[]", "Expected `object`, got `array`"),
        ("[" * 100_000, "a str is no Click"),
        (fs.Map({"user": "a", "at": 1 << 62}), "a Map is no Click"),
        (5, "a int is no Click: a source gives text, bytes, rows or KafkaRecord"),
    ],
)
def test_what_does_not_fit_is_told_by_field_and_in_few_words(record: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message) as raised:
        decoder(Click)(record)
    assert len(str(raised.value)) < 300


@fs.event
class Held:
    numbers: fs.Vector[int] = fs.Vector()
    times: fs.Vector[datetime] = fs.Vector()
    ranks: fs.Map[int, int] = fs.Map()


def test_what_is_in_collections_is_as_strict_as_a_field_but_for_the_keys_of_an_object() -> None:
    assert decoder(Held)('{"ranks": {"1": 2}}') == Held(ranks=fs.Map({1: 2}))
    for line in ('{"numbers": ["5"]}', '{"times": [5]}', '{"ranks": {"1": "2"}}', '{"ranks": [["1", 2]]}'):
        with pytest.raises(RecordError, match=r"a str is no Held: .*Expected"):
            decoder(Held)(line)


def test_a_record_without_a_zone_is_no_payload() -> None:
    naive = decoder(Place)('{"town": "Ulm", "since": "2026-01-02T12:00:00"}')
    with pytest.raises(PayloadError, match=r"has no zone.*\(at payload\.since\)"):
        payload.check(naive)


@fs.event
class Listed:
    tags: list[str]


@dataclass
class Thawed:
    user: str


class Bare:
    user: str


@fs.event
class Around:
    inner: Bare | None


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (
            Listed,
            r"Listed\.tags is annotated list\[str\]: a list is not a payload: use a tuple or fs\.Vector",
        ),
        (Thawed, r"Thawed is not frozen"),
        (Bare, r"put @fs\.event above the class"),
        (Around, r"Around\.inner is annotated Bare: .*@fs\.payload_type"),
    ],
)
def test_a_class_that_cannot_be_an_event_is_refused_when_the_graph_is_built(cls: type, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        decoder(cls)


def test_a_decoder_travels_and_is_called_as_it_is_written() -> None:
    assert pickle.loads(pickle.dumps(decoder(Place)))('{"town": "Ulm"}') == Place("Ulm")
    assert decoder(Place).written == "fs.decoder(Place)"
