"""Broken variants: a reader with one check taken away, as it was once or could be. The fuzzers must find each
within CI's budget.

Does not: fuzz (run.py), or hold what a target promises (targets/).
"""

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from typing import Any

ROOT = "flamestream."
C = f"{ROOT}connectors."
M = "flamestream.model."


@dataclass(frozen=True, slots=True)
class Broken:
    """In the source of the function at `where` (module:name or module:Class.name) `old` is `new`; without
    `old` a constant is."""

    target: str
    where: str
    old: str
    new: str

    def plant(self, instrument: Callable[[Any], Any] = lambda made: made) -> None:
        """For the life of this process. `instrument` makes the fuzzer see the function's branches."""
        module_name, _, path = self.where.partition(":")
        module: Any = import_module(module_name)
        *owners, name = path.split(".")
        owner = reduce(getattr, owners, module)
        before = getattr(owner, name)
        if self.old:
            # also where it was imported by name
            _plain(before).__code__ = instrument(_plain(self._broken(before, vars(module)))).__code__
        else:
            setattr(owner, name, eval(self.new, vars(module)))

    def _broken(self, before: Any, around: dict[str, Any]) -> Any:
        source = textwrap.dedent(inspect.getsource(before))
        assert source.count(self.old) == 1, (
            f"{self.where} has {self.old!r} {source.count(self.old)} times: mend the variant"
        )
        made: dict[str, Any] = {}
        exec(compile(source.replace(self.old, self.new), f"broken {self.where}", "exec"), around, made)
        return made.popitem()[1]


def _plain(function: Any) -> Any:
    """Without what was wrapped around it."""
    return inspect.unwrap(getattr(function, "__func__", function))


def _unguarded(target: str) -> Broken:
    """Only what msgspec calls a DecodeError is caught, as about 25 decoders had it."""
    return Broken(target, f"{M}decoding:MALFORMED", "", "(msgspec.DecodeError,)")


VARIANTS: dict[str, Broken] = {
    "a tag that is no number": Broken("payload", f"{M}payloads.encoding:value_of", " or type(wire[0]) is not int", ""),
    "a change without a place": Broken("state", f"{M}payloads.state:_paired", "if len(places) != len(changes):", "if False:"),
    "a frame of twice the limit": Broken("frame", f"{ROOT}net.framing:_cut", "if size > most:", "if size > 2 * most:"),
    "a greeting that is not looked at": Broken("handshake", f"{ROOT}net.handshake:parse", "except DecodeError", "except KeyError"),
    "text that is none, of a worker": _unguarded("message"),
    "text that is none, in a record": _unguarded("job-record"),
    "a commit that nobody announced": Broken(
        "job-record", "flamestream.core.protocol.job_record:JobRecord.__post_init__", "if self.committed > self.announced:", "if False:"
    ),
    "text that is none, in a manifest": _unguarded("snapshot-manifest"),
    "text that is none, in a decision": _unguarded("rolling-decision"),
    "text that is none, in a batch": _unguarded("journal-batch"),
    "text that is none, in a seal": _unguarded("journal-seal"),
    "text that is none, in a header": _unguarded("kafka-headers"),
    "a body without its checksum": Broken(
        "journal", f"{ROOT}journal.file:_record_end", " and crc32(memoryview(data)[body : end - 1]) == check", ""
    ),
    "a delivery without its checksum": Broken(
        "sink-log", f"{ROOT}fenced.log:read_body", ' and crc32(body) == int.from_bytes(header[4:], "big")', ""
    ),
    "offsets that go back": Broken("key-log", f"{C}http.keys:_read", "if any(", "if False and any("),
    "a Parquet file that is damaged": Broken(
        "segment", f"{ROOT}store.segment:read_segment", "except (pa.ArrowException, OSError, ValueError, MemoryError)", "except MemoryError"
    ),
    "a record out of its order": Broken(
        "socket-producer", f"{C}socket.source:SocketProducer._frames", "if offset == expected:", "if offset >= expected:"
    ),
    "an answer to another delivery": Broken(
        "socket-consumer", f"{C}socket.sink:SocketConsumer._acknowledge", "and self._in_flight.number == number", ""
    ),
    "a head that is none": Broken(
        "http", f"{ROOT}net.http_reader:_parsed", "except HttpParserError as error:", "except KeyError as error:"
    ),
    "no token": Broken(
        "http", f"{ROOT}net.http_connection:Connection._judge", "server.token is not None and not", "server.token is None and not"
    ),
    "hexadecimal that is none": Broken(
        "http-consumer", f"{C}http.sink:HttpWriting.open", "except ValueError as error:", "except msgspec.DecodeError as error:"
    ),
    "a registry that is none": Broken(
        "schema-registry", f"{C}kafka.avro:Registry._ask", "from_json(answer.read(MAX_ANSWER), kind)", "json.load(answer)"
    ),
    "a cursor of no log": Broken("event-cursor", f"{ROOT}fenced.tail:Cursor.parse", "except ValueError:", "except KeyError:"),
    "a value that is no payload": Broken("kafka", f"{C}kafka.formats:_payload", "except Corrupt as error:", "except KeyError as error:"),
    "Avro that ends too early": Broken("avro", f"{C}kafka.avro:_read", "EOFError,", ""),
    "a schema that is a number": Broken("avro-schema", f"{C}kafka.avro:_parsed", "TypeError,", ""),
    "a quote without its end": Broken("rows", f"{C}files.lines:CsvRows._values", "except csv.Error as", "except KeyError as"),
    "an entry without a field": Broken(
        "redis", f"{C}redis.source:RedisReader._payload", "except KeyError as error:", "except IndexError as error:"
    ),
    "an array in an array": Broken("postgres", f"{C}postgres.source:_frozen", "map(_frozen, value)", "value"),
    "a character that YAML does not have": Broken(
        "job-file", f"{ROOT}job.located:parse", "except yaml.YAMLError as error:  # a", "except KeyError as error:  # a"
    ),
}  # fmt: skip
"""By what they let through."""
