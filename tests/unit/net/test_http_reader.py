"""Requests of a client are what they are, however their bytes are cut, and none sees a byte of the next one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamestream.net.http_reader import MAX_HEAD, SHORT, Head, Malformed, RequestReader

Asked = tuple[str, str, bytes]
"""Method, path and body."""
BODIES = (b"", b"\r\n\r\n", b"0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)))


def written(asked: Asked, chunk: int, upgrade: bool) -> bytes:
    """As a client writes it: with a length, or in chunks of so many bytes."""
    method, path, body = asked
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n"
    if upgrade:
        head += "Connection: Upgrade\r\nUpgrade: h2c\r\n"
    if not chunk:
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    chunks = [body[at : at + chunk] for at in range(0, len(body), chunk)]
    its = b"".join(b"%x;a=b\r\n%b\r\n" % (len(each), each) for each in chunks)
    return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + its + b"0\r\nAfter: wards\r\n\r\n"


def read(pieces: list[bytes]) -> list[Asked]:
    reader, found, head, body = RequestReader(), list[Asked](), None, b""
    for piece in pieces:
        reader.add(piece)
        while True:
            if head is None and (head := reader.head()) is None:
                break
            body += reader.body()
            if not reader.whole:
                break
            found.append((head.method, head.path, body))
            head, body = None, b""
    return found


asked = st.tuples(
    st.sampled_from(["GET", "POST", "CONNECT"]), st.sampled_from(["/", "/a/b"]), st.sampled_from(BODIES)
)


@given(
    st.lists(st.tuples(asked, st.sampled_from([0, 1, 4, 100]), st.booleans()), max_size=5),
    st.lists(st.integers(1, 40), max_size=40),
)
def test_requests_are_the_same_however_their_bytes_are_cut(
    sent: list[tuple[Asked, int, bool]], cuts: list[int]
) -> None:
    """Also of a client that would go over to another protocol (h2c), as that of Java does."""
    data = b"".join(written(*each) for each in sent)
    pieces = list[bytes]()
    for cut in cuts:
        pieces.append(data[:cut])
        data = data[cut:]
    assert read([*pieces, data]) == [its for its, _, _ in sent]


@pytest.mark.parametrize(
    ("rest", "lasts"),
    [("1.1\r\nHost: x", True), ("1.1\r\nHost: x\r\nConnection: close", False), ("1.0", False)],
)
def test_a_connection_lasts_if_the_client_wants_it(rest: str, lasts: bool) -> None:
    reader = RequestReader()
    reader.add(f"GET / HTTP/{rest}\r\n\r\n".encode())
    head = reader.head()
    assert head is not None and head.lasts == lasts


def _head_of(data: bytes) -> Head | None:
    reader = RequestReader()
    reader.add(data)
    return reader.head()


def test_a_short_head_that_comes_again_is_not_parsed_again_whoever_sends_it() -> None:
    short, long = (b"GET / HTTP/1.1\r\nHost: x\r\na: " + b"b" * size + b"\r\n\r\n" for size in (9, SHORT))
    assert _head_of(short) is _head_of(short)
    assert _head_of(long) == _head_of(long)
    assert _head_of(long) is not _head_of(long), "or strangers could keep memory"


def test_a_head_that_is_none_is_refused_each_time() -> None:
    for _ in range(3):
        with pytest.raises(Malformed):
            _head_of(b"GET / HTTP/1.1\r\n\r\n")


def test_a_head_is_bounded_whether_it_ends_or_not() -> None:
    long = b"GET / HTTP/1.1\r\nHost: x\r\na: " + b"b" * MAX_HEAD
    for end in (b"", b"\r\n\r\n"):
        reader = RequestReader()
        reader.add(long + end)
        with pytest.raises(Malformed) as raised:
            reader.head()
        assert raised.value.status == 431


@pytest.mark.parametrize(
    "more",
    [b"1;" + b"x" * 2 * MAX_HEAD, b"0\r\na: " + b"b" * 2 * MAX_HEAD, b"0\r\n" + b"a: b\r\n" * MAX_HEAD],
)
def test_what_stands_between_chunks_is_bounded(more: bytes) -> None:
    reader = RequestReader()
    reader.add(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    reader.head()
    with pytest.raises(Malformed) as raised:
        take(reader, more)
    assert raised.value.status == 431


def take(reader: RequestReader, body: bytes) -> None:
    for at in range(0, len(body), 1000):
        reader.add(body[at : at + 1000])
        reader.body()
