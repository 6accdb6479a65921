"""A Kafka sink's records and what it keeps of bundles, without a broker."""

from typing import Any, NamedTuple

import pytest

from flamestream.connectors.kafka.items import Place, Places, Records, digest_of, pack
from flamestream.connectors.kafka.ledger import KafkaLedger
from flamestream.connectors.kafka.transactions import Transactions
from flamestream.core.protocol.actions import Bundle
from flamestream.model.collections import Map
from flamestream.model.errors import UserError
from flamestream.model.ids import SequenceNumber, Slot
from flamestream.model.payload import encode_items


def taken(ledger: KafkaLedger, *bundles: Bundle, items: list[tuple[bytes, object]]) -> None:
    ledger.take([(bundle, items, digest_of(bundle.items)) for bundle in bundles])


@pytest.mark.parametrize("number", [1, 127, 128, 65_536, 1 << 40])
@pytest.mark.parametrize("meta", [b"", b"meta", b"m" * 31, b"m" * 300, b"m" * 70_000])
def test_a_header_in_parts_is_the_header_of_the_place(number: int, meta: bytes) -> None:
    place = Place(b"12345678", number, number + 1, number % 997, number, number, meta, b"87654321")
    before, after = Places(place.tag, place.attempt, place.layout).around(
        place.slot, place.sequence, place.count, place.digest
    )
    assert before + pack(meta) + after == pack(place)


@pytest.mark.parametrize("count", [1, 3])
def test_the_last_item_is_known_although_it_is_encoded_late(count: int) -> None:
    items: list[tuple[bytes, object]] = [(b"%d" % number, f"item {number}") for number in range(count)]
    ledger = KafkaLedger({}, {})
    taken(ledger, Bundle(Slot(7), SequenceNumber(1), items[-1][0], encode_items(items)), items=items)
    assert ledger.last([Slot(7)])[Slot(7)].items == encode_items(items[-1:])
    assert [state.last for state in ledger.states] == [encode_items(items[-1:])]


def test_a_long_last_item_is_not_kept() -> None:
    items: list[tuple[bytes, object]] = [(b"1", "long" * 1000)]
    ledger = KafkaLedger({}, {})
    taken(ledger, Bundle(Slot(7), SequenceNumber(1), b"1", encode_items(items)), items=items)
    assert [state.last for state in ledger.states] == [b""]


@pytest.mark.parametrize(
    ("payload", "key"), [("text", b"text"), (b"bytes", b"bytes"), (-12, b"-12"), (None, None)]
)
def test_keys_are_text_bytes_whole_numbers_or_none(payload: object, key: bytes | None) -> None:
    records = Records("json", "word", "murmur2_random", "sink")
    assert [record[:2] for record in records.of([(b"m", Map({"word": payload}))], 0, 1)] == [(b"m", key)]


@pytest.mark.parametrize("payload", [True, 1.5, ("a", "tuple"), Map({})])
def test_another_key_is_an_error_that_says_so(payload: object) -> None:
    records = Records("payload", "word", "murmur2_random", "sink")
    with pytest.raises(UserError, match="a key is text, bytes, a whole number or None"):
        records.of([(b"m", Map({"word": payload}))], 0, 1)


class Report(NamedTuple):
    """What a delivery report says of a record."""

    where: int
    at: int | None

    def partition(self) -> int:
        return self.where

    def offset(self) -> int | None:
        return self.at


def test_a_record_that_was_sent_twice_has_no_offset_and_moves_none() -> None:
    nothing: Any = None
    transactions = Transactions(nothing, nothing, "w1")
    for report in (Report(0, 7), Report(1, 3), Report(0, None), Report(1, 4)):
        transactions._delivered(None, report)  # type: ignore[arg-type]
    assert transactions.offsets == {0: 8, 1: 5}
