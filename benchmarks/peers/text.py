"""The job's two functions for peers in Python, on plain tuples, and its sockets: the same work as
workload.py, with nothing of ours."""

import gc
import socket


def collect_less() -> None:
    """No collections of cycles, which hold a loop up: none of these jobs makes any."""
    gc.disable()


def words(line: str) -> list[tuple[str, int, tuple[int, ...]]]:
    """Word, document, positions: one for each distinct word."""
    number, _, text = line.partition("\t")
    positions: dict[str, list[int]] = {}
    for place, word in enumerate(text.split()):
        positions.setdefault(word, []).append(place)
    document = int(number)
    return [(word, document, tuple(where)) for word, where in positions.items()]


def change(word: str, document: int, documents: int, positions: tuple[int, ...]) -> bytes:
    """A line for the consumer."""
    return f"{word}\t{document}\t{documents}\t{','.join(map(str, positions))}\n".encode()


def connect(address: str) -> socket.socket:
    """Without Nagle."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
