"""TLS between holders of one key: whatever happens to the bytes between them, what is handed over is what was
sent, or less of it."""

import os
import random
import ssl

import pytest

from flamestream.net.tls import MOST_UNPROVED, LinkKey, TlsStream

KEY = LinkKey(b"the key of attempt 1")
OTHER = LinkKey(b"the key of attempt 2")
PURPOSE = b"worker 0 to worker 1"
WORDS = [b"first", b"second word", b"and a third"]


class Way:
    """One direction: bytes in, and what the end of it has been handed and told."""

    def __init__(self, start: TlsStream, end: TlsStream) -> None:
        self.start, self.end = start, end
        self.sent: list[bytes] = []
        """What went over the wire, as it left."""
        self.heard = bytearray()
        self.over = ""

    def carry(self, data: bytes) -> None:
        """Bring `data` to the end, if that still listens."""
        self.sent.append(data)
        for place in range(0, len(data), 1000):
            if not self.over:
                plain, self.over = self.end.received(memoryview(data[place : place + 1000]))
                self.heard += plain

    def carry_own(self) -> None:
        """What TLS itself has to say."""
        if own := self.start.to_send():
            self.carry(own)


class Pair:
    """Two ends, and nobody between them yet."""

    def __init__(self, key: LinkKey = KEY, other: LinkKey = KEY) -> None:
        self.dialler, self.acceptor = key.dialling(PURPOSE), other.accepting(PURPOSE)
        self.there, self.back = Way(self.dialler, self.acceptor), Way(self.acceptor, self.dialler)

    def shake(self) -> "Pair":
        for _ in range(3):
            self.there.carry_own()
            self.back.carry_own()
        return self

    @property
    def proved(self) -> tuple[bool, bool]:
        return self.dialler.proved, self.acceptor.proved

    def sealed(self) -> list[bytes]:
        """WORDS, as the dialler sends them."""
        return [self.dialler.sealed([word]) for word in WORDS]


def whole() -> Pair:
    pair = Pair().shake()
    assert pair.proved == (True, True)
    return pair


def test_what_is_sent_arrives_in_order_both_ways() -> None:
    pair = whole()
    chance = random.Random(5)
    for way in (pair.there, pair.back):
        sent = [chance.randbytes(size) for size in (0, 1, 300, 16_384, 16_385, 700_000)]
        for part in sent:
            way.carry(way.start.sealed([part[:7], part[7:]]))
        assert bytes(way.heard) == b"".join(sent)
        assert way.over == ""


def test_nothing_of_it_can_be_read_on_the_way() -> None:
    pair = whole()
    for sealed in pair.sealed():
        pair.there.carry(sealed)
    said = b"".join([*pair.there.sent, *pair.back.sent])
    assert not [word for word in (*WORDS, PURPOSE) if word in said]


def test_two_connections_of_one_key_have_nothing_in_common() -> None:
    first, second = whole(), whole()
    for mine, other in zip(first.sealed(), second.sealed(), strict=True):
        assert mine != other
    first.there.carry(second.dialler.sealed([b"spliced"]))
    assert (bytes(first.there.heard), first.there.over) == (b"", "TLS: DECRYPTION_FAILED_OR_BAD_RECORD_MAC")


def test_the_key_of_another_attempt_is_no_key() -> None:
    for pair in (Pair(KEY, OTHER).shake(), Pair(OTHER, KEY).shake()):
        assert not pair.dialler.proved and not pair.acceptor.proved
        assert pair.back.over == "it has another key"
        assert pair.there.over == "it has another key", "it is told so"


def test_an_acceptor_hears_nobody_without_a_certificate() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    pair = Pair()
    stranger = Way(TlsStream(context, accepts=False), pair.acceptor)
    back = Way(pair.acceptor, stranger.start)
    for _ in range(3):
        stranger.carry_own()
        if stranger.start.proved:  # of its own mind
            stranger.carry(stranger.start.sealed([b"word"]))
        back.carry_own()
    assert stranger.start.proved
    assert (stranger.over, bytes(stranger.heard), pair.acceptor.proved) == (
        "TLS: PEER_DID_NOT_RETURN_A_CERTIFICATE",
        b"",
        False,
    )


def test_no_older_tls_is_spoken() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode, context.maximum_version = (
        False,
        ssl.CERT_NONE,
        ssl.TLSVersion.TLSv1_2,
    )
    pair = Pair()
    older = Way(TlsStream(context, accepts=False), pair.acceptor)
    older.carry_own()
    assert older.over == "TLS: UNSUPPORTED_PROTOCOL"


def test_who_proves_nothing_is_heard_for_some_kilobytes() -> None:
    """A hello of 64 KB, a legal piece at a time."""
    pair = Pair()
    pieces = [b"\1\0\xff\0" + bytes(1_000), *[bytes(1_000)] * 60]
    for piece in pieces:
        pair.there.carry(b"\x16\3\1" + len(piece).to_bytes(2, "big") + piece)
        if pair.there.over:
            break
    assert pair.there.over == "it sent more than the handshake asks for"
    assert sum(map(len, pair.there.sent)) < MOST_UNPROVED + 2_000


def test_who_means_another_purpose_is_no_peer() -> None:
    pair = Pair()
    pair.acceptor = pair.there.end = pair.back.start = KEY.accepting(b"worker 0 to worker 2")
    pair.shake()
    assert pair.proved == (False, False)


@pytest.mark.parametrize("seed", range(30))
def test_random_bytes_prove_nothing_and_raise_nothing(seed: int) -> None:
    chance = random.Random(seed)
    data = chance.randbytes(chance.choice((1, 6, 100, 30_000)))
    for end in (KEY.accepting(PURPOSE), KEY.dialling(PURPOSE)):
        way = Way(end, end)
        way.carry(data if seed % 2 else b"\x16\3\1" + len(data).to_bytes(4, "big")[2:] + data)
        assert not end.proved and not way.heard


# --- somebody in the middle ---------------------------------------------------------------------------------


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :]


def never_altered(pair: Pair) -> None:
    """What was handed over is how what was sent begins, on a connection whose ends both are proved."""
    assert b"".join(WORDS).startswith(pair.there.heard)
    assert not pair.there.heard or pair.proved == (True, True)
    assert not pair.back.heard


def tapped(name: str, place: int) -> Pair:
    """With one byte of one direction changed on its way."""
    pair = Pair()
    way: Way = getattr(pair, name)
    carry = way.carry

    def changed(data: bytes) -> None:
        here = place - sum(map(len, way.sent))
        carry(flipped(data, here) if 0 <= here < len(data) else data)

    way.carry = changed  # type: ignore[method-assign]
    return pair


@pytest.mark.parametrize("part", range(20))
@pytest.mark.parametrize("name", ["there", "back"])
def test_a_flipped_byte_of_the_handshake_alters_nothing(name: str, part: int) -> None:
    """Every byte, in twenty parts. Some (versions that TLS tells to ignore) may be anything, and the
    connection is whole; most end it."""
    way: Way = getattr(whole(), name)
    places = range(part, sum(map(len, way.sent)), 20)
    ended = 0
    for place in places:
        pair = tapped(name, place).shake()
        if pair.dialler.proved and not pair.back.over:
            for sealed in pair.sealed():
                pair.there.carry(sealed)
        never_altered(pair)
        ended += bytes(pair.there.heard) != b"".join(WORDS)
    assert ended > 0.9 * len(places)


def test_a_flipped_byte_of_what_is_said_ends_the_connection() -> None:
    size = len(whole().dialler.sealed([WORDS[1]]))
    for place in range(size):
        pair = whole()
        first, second, third = pair.sealed()
        for sealed in (first, flipped(second, place), third):
            pair.there.carry(sealed)
        never_altered(pair)
        assert bytes(pair.there.heard) == WORDS[0]
    assert size > 30


ATTACKS: dict[str, tuple[list[int], int]] = {
    "one left out": ([0, 2], 1),
    "the first left out": ([1, 2], 0),
    "two swapped": ([0, 2, 1], 1),
    "one twice": ([0, 1, 1, 2], 2),
    "an old one at the end": ([0, 1, 2, 0], 3),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_records_that_are_left_out_swapped_or_said_again_end_the_connection(attack: str) -> None:
    order, heard = ATTACKS[attack]
    pair = whole()
    sealed = pair.sealed()
    for number in order:
        pair.there.carry(sealed[number])
    assert bytes(pair.there.heard) == b"".join(WORDS[:heard])
    assert pair.there.over.startswith("TLS: ")


def test_a_cut_anywhere_gives_the_beginning_only() -> None:
    sealed = whole().sealed()
    for place in range(len(b"".join(sealed))):
        pair = whole()
        pair.there.carry(b"".join(pair.sealed())[:place])
        never_altered(pair)
        assert bytes(pair.there.heard) in (b"", WORDS[0], WORDS[0] + WORDS[1])


def test_an_end_s_own_words_are_not_its_peer_s() -> None:
    pair = whole()
    pair.back.carry(pair.sealed()[0])
    assert (bytes(pair.back.heard), pair.back.over) == (b"", "TLS: DECRYPTION_FAILED_OR_BAD_RECORD_MAC")
    alone = Pair()
    alone.back.carry(alone.dialler.to_send())
    assert not alone.dialler.proved and alone.back.over


def test_a_recorded_connection_is_worth_nothing_again() -> None:
    record = whole()
    for sealed in record.sealed():
        record.there.carry(sealed)
    again = Pair()
    for data in record.there.sent:
        again.there.carry(data)
    assert not again.acceptor.proved
    assert not again.there.heard


def test_the_private_key_is_on_no_disk() -> None:
    before = set(os.listdir("/proc/self/fd"))
    LinkKey(b"another").dialling(PURPOSE)
    assert set(os.listdir("/proc/self/fd")) == before, "nor in an open file"
