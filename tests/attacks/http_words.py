"""Requests that no client of ours sends: the table that tests answer one by one, and that `make attacks`
throws at a live job."""

HOST = b"Host: x\r\n"
ATTACKS: dict[str, tuple[bytes, int, int]] = {
    # what is sent, and what a source without its token, and an events sink, answer
    "curl -I": (b"HEAD /events HTTP/1.1\r\n" + HOST + b"\r\n", 401, 200),
    "HEAD of something else": (b"HEAD / HTTP/1.1\r\n" + HOST + b"\r\n", 401, 404),
    "HEAD with a body": (b"HEAD /events HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello", 401, 413),
    "HEAD of HTTP/1.0": (b"HEAD /events HTTP/1.0\r\n\r\n", 401, 200),
    "CONNECT": (b"CONNECT example:80 HTTP/1.1\r\nHost: example:80\r\n\r\n", 401, 404),
    "CONNECT of the path": (b"CONNECT /events HTTP/1.1\r\n" + HOST + b"\r\n", 401, 405),
    "a method that nobody knows": (b"BREW /events HTTP/1.1\r\n" + HOST + b"\r\n", 501, 501),
    "an upgrade": (b"GET /events HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 401, 200),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n" + HOST + b"\r\nSM\r\n\r\n", 505, 505),
    "a version that nobody knows": (b"GET /events HTTP/9.9\r\n" + HOST + b"\r\n", 505, 505),
    "a version that is none": (b"GET /events HTTP/x\r\n" + HOST + b"\r\n", 400, 400),
    "no host": (b"GET /events HTTP/1.1\r\n\r\n", 400, 400),
    "a header without a colon": (b"GET /events HTTP/1.1\r\n" + HOST + b"nonsense\r\n\r\n", 400, 400),
    "a header with a zero byte": (b"GET /events HTTP/1.1\r\n" + HOST + b"a: b\0c\r\n\r\n", 400, 400),
    "two lengths": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400, 400),
    "a length that is no number": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", 400, 400),
    "a length of 64 bits": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 18446744073709551615\r\n\r\n", 401, 413),
    "a coding that nobody knows": (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip\r\n\r\n", 501, 501),
    "chunks that are none": (b"POST /events HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 401, 400),
    "a chunk too long": (b"POST /events HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nffffff\r\nxxxx", 401, 413),
    "a chunk's length without end": (b"POST /events HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 70_000, 401, 400),
    "an extension of a chunk without end": (
        b"POST /events HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * 70_000, 401, 431,
    ),
    "headers behind a body, without end": (
        b"POST /events HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 10_000, 401, 431,
    ),
    "a length and chunks": (
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, 400,
    ),
    "two hosts": (b"GET /events HTTP/1.1\r\n" + HOST * 2 + b"\r\n", 400, 400),
    "lines without a carriage return": (b"GET /events HTTP/1.1\nHost: x\n\n\r\n\r\n", 400, 400),
    "a head without end": (b"GET /events HTTP/1.1\r\n" + b"a: b\r\n" * 10_000, 431, 431),
    "a line without end": (b"GET /" + b"x" * 70_000, 431, 431),
    "a body that waits to be asked for": (
        b"POST /events HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 9999999\r\n\r\n", 401, 413,
    ),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20 + b"\r\n\r\n", 400, 400),
    "a cursor that is none": (b"GET /events HTTP/1.1\r\n" + HOST + b"Last-Event-ID: " + b"9" * 5000 + b".1\r\n\r\n", 401, 400),
    "a query that is none": (b"GET /events?after=%ff%00&from HTTP/1.1\r\n" + HOST + b"\r\n", 401, 400),
}  # fmt: skip
