"""The shape of an Avro schema: whether a type in it holds itself, and whether elements of a list may take no
bytes.

Ten bytes can say "a list of 2**60 nulls"; such a schema is refused. A megabyte can say "a list in a list in a
list ...", of a type that holds itself; fastavro's native reader calls itself for each, and ends the process
at some ten thousand. Such data is read by its Python reader, which gives up with an error.

>>> refers_to_itself({"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]})
True

Does not: read data (avro.py).
"""

from typing import Any, BinaryIO, Final, NamedTuple

from flamestream.model.errors import UserError

_EMPTY: Final = "null"


class Schema(NamedTuple):
    """A schema as fastavro parsed it."""

    parsed: Any
    refers_to_itself: bool

    def read(self, data: BinaryIO) -> Any:
        """The next value. Raises what fastavro raises, and RecursionError for one that is too deep."""
        from fastavro import _read_py, schemaless_reader  # an extra

        reader = _read_py.schemaless_reader if self.refers_to_itself else schemaless_reader
        return reader(data, self.parsed, None)


def checked(parsed: Any) -> Schema:
    """The schema, ready to read with. Raises UserError like `refers_to_itself`."""
    return Schema(parsed, refers_to_itself(parsed))


def refers_to_itself(schema: Any) -> bool:
    """Whether a type in the schema holds itself; the schema is fastavro's, with whole names. Raises UserError
    if elements of a list in it may take no bytes."""
    walk = _Walk()
    walk.takes_bytes(schema)
    return walk.refers_to_itself


class _Walk:
    """A walk through a schema, in which each named type is defined before it is named."""

    def __init__(self) -> None:
        self.refers_to_itself = False
        self._open: set[str] = set()
        self._known: dict[str, bool] = {}

    def takes_bytes(self, kind: Any) -> bool:
        """Whether each value takes a byte at least."""
        if isinstance(kind, list):
            for each in kind:
                self.takes_bytes(each)
            return True  # the branch's number
        if isinstance(kind, str):
            self.refers_to_itself |= kind in self._open
            return self._known.get(kind, kind != _EMPTY)
        name, of = str(kind.get("name", "")), kind["type"]
        match of:
            case "array":
                if not self.takes_bytes(kind["items"]):
                    what = "elements of an array in the schema take no bytes"
                    raise UserError(
                        f"avro: {what}, so a few bytes may stand for any number of them: give them a field"
                    )
                return True
            case "map":
                self.takes_bytes(kind["values"])
                return True
            case "fixed":
                self._known[name] = int(kind["size"]) > 0
            case "enum":
                self._known[name] = True
            case "record" | "error":
                self._open.add(name)
                # all of them are looked at
                fields = [self.takes_bytes(field["type"]) for field in kind["fields"]]
                self._known[name] = any(fields)
                self._open.discard(name)
            case _:
                return self.takes_bytes(of)
        return self._known[name]
