"""Both ends of the wire protocol (docs/reference/wire-protocol.md) in a few lines, for other languages. It
uses nothing of FlameStream.

    python examples/connectors/socket_client.py produce 7001 < lines.txt
    # sources: {docs: {socket: {address: "localhost:7001"}}}
    python examples/connectors/socket_client.py consume 7002
    # sinks: {index: {socket: {address: "localhost:7002"}}}

Both keep what they have in memory. A producer or consumer that has to survive its own crash keeps the same
things on disk: the records that are not durable yet, and each slot's fence and last bundle.
"""

import json
import socket
import struct
import sys
import threading

import msgspec


def read_frame(stream):
    length = stream.read(4)
    if len(length) < 4:
        raise EOFError
    return stream.read(*struct.unpack(">I", length))


def send_frame(peer, body):
    peer.sendall(struct.pack(">I", len(body)) + body)


def serve(listener, talk):
    """A thread for each connection: a new attempt may dial before the old one's connection is noticed to be
    dead."""
    while True:
        peer, _ = listener.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=talk_until_closed, args=(talk, peer), daemon=True).start()


def talk_until_closed(talk, peer):
    try:
        with peer, peer.makefile("rb") as stream:
            talk(peer, stream)
    except (EOFError, OSError):
        pass  # the worker will dial again


# --- producer: a worker dials, says which record it needs next, and gets all from there on ------------------


def produce(listener, records, on_durable=lambda upto: None):
    """Send `records` (bytes) and the end, from where each connection asks, for ever."""

    def send_records(peer, hello):
        try:
            for number in range(hello["next"].get("", 0), len(records)):
                send_frame(peer, struct.pack(">Q", number) + records[number])
            send_frame(peer, b"")
        except OSError:
            pass

    def talk(peer, stream):
        hello = json.loads(read_frame(stream))
        threading.Thread(target=send_records, args=(peer, hello), daemon=True).start()
        while True:
            on_durable(json.loads(read_frame(stream))["durable"][""])

    serve(listener, talk)


# --- consumer: keeps each slot's fence and last bundle, takes each bundle once ------------------------------


def consume(listener, take):
    """Call `take(slot, [[meta, payload], ...])` for each bundle, once, in the order of its slot."""
    fences, last, lock = {}, {}, threading.Lock()

    def opened(fence, slots):
        if any(fences.get(slot, [0, 0]) > fence for slot in slots):
            return ["fenced", fence]
        fences.update((slot, fence) for slot in slots)
        return ["opened", fence, [last[slot] for slot in slots if slot in last]]

    def delivered(fence, number, bundles):
        if any(fences.get(bundle[0], [0, 0]) > fence for bundle in bundles):
            return ["fenced", fence]
        for bundle in bundles:
            slot, sequence, _, items = bundle
            had = last[slot][1] if slot in last else 0
            if sequence == had + 1:
                take(slot, msgspec.msgpack.decode(items))
                last[slot] = bundle
            elif last.get(slot) != bundle:
                return ["failed", fence, "bug", f"bundle {sequence} of slot {slot} does not follow {had}"]
        return ["acknowledged", fence, number]

    def talk(peer, stream):
        while True:
            kind, *fields = msgspec.msgpack.decode(read_frame(stream))
            with lock:
                if kind == "open":
                    _, fence, _job, _sink, _writer, slots = fields
                    answer = opened(fence, slots)
                else:
                    answer = delivered(*fields)
            send_frame(peer, msgspec.msgpack.encode(answer))

    serve(listener, talk)


def main():
    role, port = sys.argv[1], int(sys.argv[2])
    with socket.create_server(("", port)) as listener:
        if role == "produce":
            produce(
                listener,
                [line.rstrip(b"\n") for line in sys.stdin.buffer],
                lambda upto: print(f"{upto} records are safe"),
            )
        else:
            consume(listener, lambda slot, items: [print(slot, payload, flush=True) for _, payload in items])


if __name__ == "__main__":
    main()
