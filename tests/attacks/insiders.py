"""Attacks of a worker that is not ours any more (it has its job's token): on the coordinators, which share a
process and a port."""

from collections.abc import Callable

from attacks.attack import Attack, Strike
from attacks.control_words import ADDRESSES, WRONG, Hostile, encode, hello, report
from attacks.hands import Hands
from flamestream.core.protocol.messages import Failed, PeerLost
from flamestream.model.ids import NO_FENCE, WorkerId

WORKER = "a worker with its job's token"
LARGE = 8 << 20


def says(*frames: bytes) -> Strike:
    """Behind the handshake; and is gone."""

    def strike(hands: Hands, _: int) -> None:
        Hostile(hands.proved, *frames).gone()

    return strike


def stays(*frames: bytes, part: int = 0) -> Strike:
    """On up to 300 links; with the beginning of a large frame."""
    kept: list[Hostile] = []

    def strike(hands: Hands, _: int) -> None:
        if len(kept) < 300:
            kept.append(Hostile(hands.proved, *frames))
            if part:
                kept[-1].send_part(part, of=LARGE)

    return strike


def by_number(make: Callable[[int], list[bytes]]) -> Strike:
    def strike(hands: Hands, number: int) -> None:
        Hostile(hands.proved, *make(number)).gone()

    return strike


HELLO = encode(hello("hostile"))
LOST, FAILED = encode(PeerLost(NO_FENCE, WorkerId("w0"), "x")), encode(Failed(NO_FENCE, "bug", "x" * 1000))


def addresses(number: int) -> list[bytes]:
    return [encode(hello("hostile", ADDRESSES[number % len(ADDRESSES)]))]


ATTACKS = [
    *(Attack(WORKER, f"reports {name}", says(HELLO, data), a_second=20) for name, data in WRONG.items()),
    Attack(WORKER, "names addresses that are none", by_number(addresses), a_second=20),
    Attack(WORKER, "proves itself 300 times and never says Hello", stays(), a_second=50),
    Attack(WORKER, "begins 300 frames of 8 MB before its Hello", stays(part=LARGE - 1), a_second=20),
    Attack(WORKER, "begins 300 frames of 8 MB behind its Hello", stays(HELLO, part=LARGE - 1), a_second=20),
    Attack(
        WORKER,
        "comes and goes under 1,000 names",
        by_number(lambda number: [encode(hello(f"hostile-{number % 1000}"))]),
        a_second=20,
    ),
    Attack(WORKER, "says that others are lost", says(HELLO, LOST), a_second=20),
    Attack(WORKER, "reports 200 times in a breath", says(HELLO, *[report()] * 200), a_second=5),
    Attack(
        WORKER,
        "comes again and again under the name of another",
        says(encode(hello("w0"))),
        a_second=5,
        ends=True,
    ),
    Attack(WORKER, "says that it has failed", says(HELLO, FAILED), a_second=5, ends=True),
]
