"""A server that keeps the contract `fenced` of the HTTP sink (docs/reference/http.md), with SQLite: put your
own rows where `results` is.

    python examples/connectors/http_consumer.py 8090 results.db
    # in a manifest: sinks: {index: {http: {url: "http://localhost:8090/", contract: fenced}}}

What it has to do: refuse whoever is of an older attempt; keep each slot's last bundle *in the same
transaction* as what the bundle led to; take a bundle once, in the order of sequences; and say what it has
when it is asked. It uses nothing of FlameStream.
"""

import json
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

SCHEMA = """
    CREATE TABLE IF NOT EXISTS slots (
        job, sink, slot, attempt, layout, sequence, t_last, items, PRIMARY KEY (job, sink, slot));
    CREATE TABLE IF NOT EXISTS results (n INTEGER PRIMARY KEY, slot, sequence, items, payload);
"""


class Refused(Exception):
    def __init__(self, status, why):
        super().__init__(why)
        self.status = status


def slot_of(database, asked, slot):
    """The slot's row, open for whoever asks. Refuses an older attempt."""
    row = database.execute(
        "SELECT attempt, layout, sequence, items FROM slots WHERE job = ? AND sink = ? AND slot = ?",
        (asked["job"], asked["sink"], slot),
    ).fetchone()
    if row is not None and row[:2] > (asked["attempt"], asked["layout"]):
        raise Refused(409, f"slot {slot} is open under attempt {row[0]}")
    return row


def opened(database, asked):
    last = []
    for slot in asked["slots"]:
        if slot_of(database, asked, slot) is None:
            key = (asked["job"], asked["sink"], slot)
            database.execute("INSERT INTO slots VALUES (?, ?, ?, 0, 0, 0, '', '')", key)
        database.execute(
            "UPDATE slots SET attempt = ?, layout = ? WHERE job = ? AND sink = ? AND slot = ?",
            (asked["attempt"], asked["layout"], asked["job"], asked["sink"], slot),
        )
        sequence, t_last, items = database.execute(
            "SELECT sequence, t_last, items FROM slots WHERE job = ? AND sink = ? AND slot = ?",
            (asked["job"], asked["sink"], slot),
        ).fetchone()
        if sequence:
            last.append({"slot": slot, "sequence": sequence, "t_last": t_last, "items": items})
    return {"flamestream": 1, "last": last}


def delivered(database, asked):
    for bundle in asked["bundles"]:
        row = slot_of(database, asked, bundle["slot"])
        if row is None or row[:2] != (asked["attempt"], asked["layout"]):
            raise Refused(410, f"slot {bundle['slot']} is not open")
        had, items = row[2:]
        if bundle["sequence"] == had and bundle["items"] == items:
            continue  # a repetition: the answer was lost
        if bundle["sequence"] != had + 1:
            raise Refused(410, f"slot {bundle['slot']} has bundle {had}, and {bundle['sequence']} comes")
        for payload in bundle["payloads"]:
            database.execute(
                "INSERT INTO results (slot, sequence, items, payload) VALUES (?, ?, ?, ?)",
                (bundle["slot"], bundle["sequence"], bundle["items"], json.dumps(payload)),
            )
        database.execute(
            "UPDATE slots SET sequence = ?, t_last = ?, items = ? WHERE job = ? AND sink = ? AND slot = ?",
            (
                bundle["sequence"],
                bundle["t_last"],
                bundle["items"],
                asked["job"],
                asked["sink"],
                bundle["slot"],
            ),
        )
    return {}


class Handler(BaseHTTPRequestHandler):
    """One thread serves all workers, so a connection ends with its request (HTTP/1.0), or when a worker stops
    in the middle of one."""

    timeout = 5

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        database = self.server.database
        try:
            with database:  # one transaction: all of it, or nothing
                answer = (
                    opened(database, asked["open"])
                    if "open" in asked
                    else delivered(database, asked["deliver"])
                )
            self.answer(200, answer)
        except Refused as refused:
            self.answer(refused.status, {"error": str(refused)})

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.database = sqlite3.connect(sys.argv[2])
    server.database.execute("PRAGMA journal_mode = WAL")
    server.database.executescript(SCHEMA)
    server.serve_forever()
