"""A page that searches the index of kafka_search.yaml: which documents have all the words, and where.

python search_page.py postgresql://localhost/postgres 8000
"""

import sys
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import psycopg

FOUND = """
    SELECT document, array_agg(word || ': ' || array_to_string(positions, ', ') ORDER BY word) FROM postings
    WHERE word = ANY (%s) GROUP BY document HAVING count(*) = %s ORDER BY document LIMIT 100"""


def found(dsn: str, words: list[str]) -> list[tuple[str, list[str]]]:
    """Documents with all the words, and the places of each word."""
    with psycopg.connect(dsn) as connection:
        return connection.execute(FOUND, (words, len(words))).fetchall() if words else []


def page(query: str, documents: list[tuple[str, list[str]]]) -> str:
    items = "".join(
        f"<li>{escape(name)} <small>({escape('; '.join(places))})</small></li>" for name, places in documents
    )
    form = f"<form><input name=q value='{escape(query)}' autofocus> <button>search</button></form>"
    return (
        f"<!doctype html><meta charset=utf-8><title>search</title>{form}<p>{len(documents)} "
        f"documents</p><ul>{items}</ul>"
    )


class Page(BaseHTTPRequestHandler):
    """One request; `dsn` is set by `main`."""

    dsn = ""

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query).get("q", [""])[0]
        body = page(query, found(self.dsn, sorted(set(query.lower().split())))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main(dsn: str, port: str) -> None:
    Page.dsn = dsn
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Page)
    print(f"http://127.0.0.1:{server.server_port}/?q=to+be", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
