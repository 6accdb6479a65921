"""The requests in a client's bytes: heads and bodies, one after the other. httptools (llhttp) parses each head,
and bodies in chunks.

A head is parsed once it is whole, and no parser ever sees a byte behind the request that it is for: httptools cannot
stop in between. So what a client sends ahead stays bytes.

>>> reader = RequestReader()
>>> reader.add(b"POST /a?b=c HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 4\\r\\n\\r\\nbo")
>>> head = reader.head()
>>> head.method, head.path, head.query, head.headers["host"], head.length
('POST', '/a', 'b=c', 'x', 4)
>>> reader.body(), reader.whole
(b'bo', False)
>>> reader.add(b"dyGET")
>>> reader.body(), reader.whole, reader.begun
(b'dy', True, True)

Keeps: of a head, and of what stands between the data of chunks, at most MAX_HEAD bytes. Does not: bound bodies,
or judge what is asked for (http_connection.py). Source: RFC 9112.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from httptools import HttpParserError, HttpParserInvalidMethodError, HttpParserUpgrade, HttpRequestParser

MAX_HEAD: Final = 32 << 10
KNOWN: Final = 64
"""Heads of all clients that need not be parsed when they come again: who asks often mostly asks in the same words."""
SHORT: Final = 1 << 10
"""Bytes of the longest of them."""
_END: Final = b"\r\n\r\n"
"""Behind each head, and behind each body in chunks."""
_VERSIONS: Final = (b"1.0", b"1.1")
_LINE: Final = re.compile(rb"[A-Z]+ [^\r]* HTTP/(\d\.\d)\r\n")
"""A first line as of a request, be it one that httptools does not know."""
_CHUNKS: Final = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"


class Malformed(Exception):
    """Bytes that are no request: the status that says so, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass(frozen=True, slots=True)
class Head:
    """All that stands before the body of a request. Names of headers are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    length: int | None
    """The bytes of its body; None: it comes in chunks."""
    lasts: bool
    """Whether another request may follow on the connection."""
    waits: bool
    """Whether the client sends the body only when it is told to."""


class RequestReader:
    """The reader of one connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._looked = 0
        """So far there is no end of a head."""
        self._left = 0
        self._chunks: _Chunks | None = None

    @property
    def begun(self) -> bool:
        """Whether something has come that is not taken yet."""
        return bool(self._buffer)

    @property
    def whole(self) -> bool:
        """Whether all of the body was taken."""
        return self._left == 0 if self._chunks is None else self._chunks.whole

    def add(self, data: bytes) -> None:
        """More has come."""
        self._buffer += data

    def head(self) -> Head | None:
        """The next one, once it is there; behind a whole body. Raises Malformed."""
        buffer = self._buffer
        while buffer.startswith(b"\r\n"):  # some clients end a body so
            del buffer[:2]
        end = buffer.find(_END, self._looked)
        if max(end, len(buffer) if end < 0 else 0) > MAX_HEAD:
            raise Malformed(431, f"a head may have {MAX_HEAD} bytes")
        if end < 0:
            self._looked = max(0, len(buffer) - len(_END) + 1)
            return None
        data, self._looked = bytes(buffer[: end + len(_END)]), 0
        del buffer[: end + len(_END)]
        head = _known(data) if len(data) <= SHORT else _parsed(data)
        self._left, self._chunks = head.length or 0, _Chunks() if head.length is None else None
        return head

    def body(self) -> bytes:
        """The part of the body that has come since the last call. Raises Malformed."""
        if self._chunks is not None:
            return self._chunks.taken(self._buffer)
        some = bytes(self._buffer[: self._left])
        del self._buffer[: self._left]
        self._left -= len(some)
        return some


class _Fields:
    """A head, as a parser calls it."""

    __slots__ = ("headers", "hosts", "lasts", "parser", "target")

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.hosts, self.lasts, self.target = 0, False, b""
        self.parser = HttpRequestParser(self)

    def on_url(self, part: bytes) -> None:
        self.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        known = name.lower().decode("latin-1")
        self.headers[known] = value.decode("latin-1").rstrip(" \t")
        self.hosts += known == "host"

    def on_headers_complete(self) -> None:
        self.lasts = self.parser.should_keep_alive()


def _parsed(data: bytes) -> Head:
    fields = _Fields()
    parser, headers, failed = fields.parser, fields.headers, None
    try:
        parser.feed_data(data)
    except HttpParserUpgrade:
        pass  # nobody goes over to another protocol here: it is a request as any other
    except HttpParserError as error:
        failed = error
    coding = headers.get("transfer-encoding")
    if coding is not None and coding.lower() != "chunked":
        raise Malformed(501, f"bodies come with their length, or in chunks, not {coding!r}")
    line = _LINE.match(data)
    if line is not None and line[1] not in _VERSIONS:
        raise Malformed(505, "only HTTP/1.1 and HTTP/1.0")
    if failed is not None or line is None:
        unknown = line is not None and isinstance(failed, HttpParserInvalidMethodError)
        raise Malformed(501 if unknown else 400, str(failed or "the first line is none of HTTP")) from failed
    new = line[1] == b"1.1"
    if fields.hosts != 1 and (new or fields.hosts):
        raise Malformed(400, "a request has one header Host")
    path, _, query = fields.target.decode("latin-1").partition("?")
    return Head(
        parser.get_method().decode(), path, query, headers,
        int(headers.get("content-length", 0)) if coding is None else None,
        new and fields.lasts,
        new and headers.get("expect", "").lower() == "100-continue",
    )  # fmt: skip


_known: Final = lru_cache(KNOWN)(_parsed)


class _Chunks:
    """A body in chunks: a parser that has seen no head but a short one."""

    def __init__(self) -> None:
        self.whole = False
        self._data = bytearray()
        self._between = 0
        """Bytes since some that belonged to the data: lengths, and what may follow the last of them."""
        self._parser = HttpRequestParser(self)
        self._parser.feed_data(_CHUNKS)

    def on_body(self, data: bytes) -> None:
        self._data += data
        self._between = 0

    def on_message_complete(self) -> None:
        self.whole = True

    def taken(self, buffer: bytearray) -> bytes:
        """Take of `buffer` what belongs to the body; its data. Raises Malformed."""
        while not self.whole:
            end = buffer.find(_END) + len(_END)
            if end < len(_END) and not (end := max(0, len(buffer) - len(_END) + 1)):
                break  # an end may be there in part
            self._between += end
            try:
                self._parser.feed_data(bytes(buffer[:end]))
            except HttpParserError as error:
                raise Malformed(400, str(error)) from error
            del buffer[:end]
            if self._between > MAX_HEAD:
                raise Malformed(431, f"between chunks there may be {MAX_HEAD} bytes")
        data = bytes(self._data)
        self._data.clear()
        return data
