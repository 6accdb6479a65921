"""Attacks of somebody who reaches a port and has no token: on HTTP ports, on the links of workers and
coordinators, on ZooKeeper."""

import contextlib
import struct
from collections.abc import Callable

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from attacks.attack import Attack, Strike
from attacks.hands import Hands
from attacks.http_words import ATTACKS as WORDS
from attacks.http_words import HOST
from flamestream.net.handshake import Greeting, Purpose
from flamestream.net.links import PROTOCOL
from flamestream.net.tls import LinkKey

AT_A_PORT, AT_A_LINK, AT_ZOOKEEPER = "an HTTP port", "a link's port", "ZooKeeper's port"


def both(data: bytes) -> Strike:
    """To the source, and to the sink of events."""

    def strike(hands: Hands, number: int) -> None:
        hands.throw(hands.site.outlet if number % 2 else hands.site.inlet, data)

    return strike


def links(make: Callable[[Hands], bytes]) -> Strike:
    """To the ports of workers and coordinators by turns."""

    def strike(hands: Hands, number: int) -> None:
        hands.throw(_link(hands, number), make(hands))

    return strike


def _link(hands: Hands, number: int) -> int:
    ports = [hands.coordinator, *hands.site.worker_ports]
    return ports[number % len(ports)]


def framed(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def greeting(hands: Hands, *, job: str = "", attempt: int = 1, worker: str = "w0") -> bytes:
    """As a worker of this job would begin."""
    purpose = Purpose(PROTOCOL, job or hands.site.job, attempt, 0, worker, "w1")
    return framed(msgspec.msgpack.encode(Greeting(purpose)))


# --- HTTP ---------------------------------------------------------------------------------------------------


def silent_http(hands: Hands, number: int) -> None:
    hands.hold(hands.site.outlet if number % 2 else hands.site.inlet)


def half_heads(hands: Hands, number: int) -> None:
    hands.hold(hands.site.outlet if number % 2 else hands.site.inlet, b"POST / HTTP/1.1\r\na: ")


def a_byte_now_and_then(hands: Hands, number: int) -> None:
    half_heads(hands, number)
    if number % 20 == 0:
        hands.drip(b"x")


def half_bodies(hands: Hands, number: int) -> None:
    said = (
        f"Authorization: Bearer {hands.site.token}\r\nIdempotency-Key: "
        f"{number}\r\nContent-Length: 1000000\r\n\r\n"
    )
    hands.hold(hands.site.inlet, b"POST / HTTP/1.1\r\n" + HOST + said.encode() + b"x" * 100_000)


def unread_streams(hands: Hands, _: int) -> None:
    hands.hold(hands.site.outlet, b"GET /events HTTP/1.1\r\n" + HOST + b"\r\n")


def requests_ahead(hands: Hands, _: int) -> None:
    hands.hold(hands.site.outlet, (b"GET /nowhere HTTP/1.1\r\n" + HOST + b"\r\n") * 500)


def wrong_tokens(hands: Hands, _: int) -> None:
    guess = hands.chance.randbytes(16).hex().encode()
    hands.throw(
        hands.site.inlet,
        b"POST / HTTP/1.1\r\n"
        + HOST
        + b"Authorization: Bearer "
        + guess
        + b"\r\nContent-Length: 2\r\n\r\nhi",
    )


def damaged_requests(hands: Hands, number: int) -> None:
    data = bytearray(hands.chance.choice([data for data, *_ in WORDS.values() if len(data) < 1000]))
    for _ in range(hands.chance.randint(1, 6)):
        place = hands.chance.randrange(len(data))
        data[place : place + hands.chance.randrange(3)] = hands.chance.randbytes(hands.chance.randrange(3))
    both(bytes(data))(hands, number)


# --- links --------------------------------------------------------------------------------------------------


def silent_links(hands: Hands, number: int) -> None:
    hands.hold(_link(hands, number))


def half_greetings(hands: Hands, number: int) -> None:
    hands.hold(_link(hands, number), greeting(hands)[:20])


def no_key(hands: Hands, number: int) -> None:
    with contextlib.suppress(OSError), hands.connect(_link(hands, number)) as connection:
        connection.sendall(greeting(hands))
        connection.recv(1 << 12)
        connection.sendall(LinkKey(b"a guess").dialling(b"").to_send())
        connection.recv(1 << 12)


def damaged_greetings(hands: Hands) -> bytes:
    damaged = bytearray(greeting(hands))
    for _ in range(hands.chance.randint(1, 4)):
        damaged[hands.chance.randrange(4, len(damaged))] = hands.chance.randrange(256)
    return bytes(damaged)


# --- ZooKeeper ----------------------------------------------------------------------------------------------


def as_a_stranger(hands: Hands, _: int) -> None:
    """Reads, writes and removes what is the operator's, with a login of its own."""
    client = KazooClient(hands.site.zookeeper, timeout=4.0, auth_data=[("digest", "stranger:guessed")])
    with contextlib.suppress(KazooException, client.handler.timeout_exception):
        client.start(timeout=2)
        record = f"/flamestream/{hands.site.job}/record"
        calls: list[Callable[[], object]] = [
            lambda: client.set(record, b'{"outcome": "completed"}'),
            lambda: client.delete(record),
            lambda: client.get(record),
        ]
        for call in calls:
            with contextlib.suppress(KazooException):
                call()
                raise SystemExit(f"{hands.site.zookeeper} lets a stranger at {record}")
    client.stop()
    client.close()


def silent_zookeeper(hands: Hands, _: int) -> None:
    hands.hold(int(hands.site.zookeeper.rpartition(":")[2]))


def garbage_to_zookeeper(hands: Hands, _: int) -> None:
    hands.throw(int(hands.site.zookeeper.rpartition(":")[2]), hands.chance.randbytes(200))


ATTACKS = [
    *(Attack(AT_A_PORT, f"sends {name}", both(data)) for name, (data, *_) in WORDS.items()),
    Attack(AT_A_PORT, "sends requests with random damage", damaged_requests),
    Attack(AT_A_PORT, "guesses the token", wrong_tokens),
    Attack(AT_A_PORT, "holds 300 silent connections", silent_http),
    Attack(AT_A_PORT, "holds 300 half heads", half_heads),
    Attack(AT_A_PORT, "sends 300 heads, a byte now and then", a_byte_now_and_then),
    Attack(AT_A_PORT, "holds 300 half bodies of 1 MB (with the token)", half_bodies, a_second=50),
    Attack(AT_A_PORT, "holds 300 event streams and reads none", unread_streams),
    Attack(AT_A_PORT, "sends 500 requests at once and reads no answer", requests_ahead, a_second=20),
    Attack(
        AT_A_LINK,
        "sends random bytes",
        links(lambda hands: hands.chance.randbytes(hands.chance.choice((1, 5, 40, 3000)))),
    ),
    Attack(
        AT_A_LINK,
        "sends random frames",
        links(lambda hands: framed(hands.chance.randbytes(hands.chance.choice((1, 5, 40, 2000))))),
    ),
    Attack(AT_A_LINK, "announces a frame of 2 GiB", links(lambda _: struct.pack(">I", 1 << 31))),
    Attack(AT_A_LINK, "sends lists in lists", links(lambda _: framed(b"\x91" * 2_000))),
    Attack(AT_A_LINK, "sends TLS", links(lambda _: WORDS["TLS"][0])),
    Attack(AT_A_LINK, "greets with damage", links(damaged_greetings)),
    Attack(AT_A_LINK, "greets for another job", links(lambda hands: greeting(hands, job="another"))),
    Attack(
        AT_A_LINK,
        "greets for an attempt that never comes",
        links(lambda hands: greeting(hands, attempt=1 << 60)),
    ),
    Attack(AT_A_LINK, "greets under no name", links(lambda hands: greeting(hands, worker=""))),
    Attack(AT_A_LINK, "greets rightly and proves nothing", no_key),
    Attack(AT_A_LINK, "holds 300 silent connections", silent_links),
    Attack(AT_A_LINK, "holds 300 half greetings", half_greetings),
    Attack(
        AT_ZOOKEEPER,
        "reads, writes and removes the job record with a login of its own",
        as_a_stranger,
        a_second=5,
    ),
    Attack(AT_ZOOKEEPER, "holds 300 silent connections", silent_zookeeper),
    Attack(AT_ZOOKEEPER, "sends random bytes", garbage_to_zookeeper),
]
