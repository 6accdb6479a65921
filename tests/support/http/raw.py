"""A client that sends bytes as they are, from an address of its choice, and reads only when told."""

import socket
from typing import Self

from flamestream.testing.port_driver import PortDriver

HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"


class RawClient:
    """One connection. `got` is what was read, `ended` whether the server has closed it."""

    def __init__(self, driver: PortDriver, port: int, data: bytes = b"", *, source: str = HERE) -> None:
        self._driver = driver
        self.socket = socket.create_connection(("127.0.0.1", port), source_address=(source, 0))
        self.socket.setblocking(False)
        self.got = bytearray()
        self.ended = False
        driver.at_exit.append(self.socket.close)
        self.send(data)

    def send(self, data: bytes) -> Self:
        """As much of it as the kernel takes while the server reads."""
        while data and not self.ended:
            try:
                data = data[self.socket.send(data) :]
            except BlockingIOError:
                self._driver.settle(1)
            except OSError:
                self.ended = True
        return self

    def read(self, most: int = 1 << 62) -> None:
        """What is there, up to about `most` bytes."""
        upto = len(self.got) + most
        while not self.ended and len(self.got) < upto:
            try:
                part = self.socket.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError:
                part = b""
            self.got += part
            self.ended = not part

    def status(self) -> int:
        """Of the first answer."""

        def answered() -> bool:
            self.read()
            return b"\r\n\r\n" in self.got or self.ended

        self._driver.until(answered, "an answer")
        assert self.got.startswith(b"HTTP/1.1 "), f"closed without an answer: {self.got!r}"
        return int(self.got[9:12])

    def closed(self) -> bytes:
        """Wait for the end. All that came before it."""

        def over() -> bool:
            self.read()
            return self.ended

        self._driver.until(over, "the end of the connection")
        return bytes(self.got)
