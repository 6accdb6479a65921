"""Files in S3, or in anything that speaks S3: objects below a prefix, in the byte order of their names.

Every read asks for the version that was listed (`If-Match`), so an object that is replaced while it is read
is an error and never a mixture. A connection that breaks is taken up again at the byte where it broke, a
bounded number of times (s3_answers.py). Objects appear whole and never grow.

Keeps: an outage is retryable, a refusal (bucket missing, access denied) is the user's to mend. Does not:
write.
"""

import io
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from typing import IO, Any, Final, TypeVar

from flamestream.connectors.files.glob import Glob
from flamestream.connectors.files.listing import unsettled
from flamestream.connectors.files.places import CHANGED, Found
from flamestream.connectors.files.s3_ahead import Ahead
from flamestream.model.errors import Corrupt, UserError
from flamestream.store.places import parsed_s3
from flamestream.store.s3_answers import EXISTS, MISSING, AnswerLost, StoreRefused
from flamestream.store.s3_calls import S3Calls, foreign_errors

T = TypeVar("T")
BUFFER: Final = 1 << 18
"""Bytes asked of a connection at once; a whole object streams through it."""


class S3Place:
    """A URL of the manifest: a prefix that is taken as a folder, or one object."""

    def __init__(self, url: str, front: str, setting: str) -> None:
        self.front = front
        """The part that goes in front of the names found below it."""
        bucket, self.prefix, options = parsed_s3(url, setting)
        self._setting = setting
        self._bucket, self._options = bucket, options
        self.root = f"s3://{bucket}/"
        self.where = self.root + self.prefix
        self._calls: S3Calls | None = None

    @property
    def calls(self) -> S3Calls:
        """Made when first needed: boto3 is slow to import, and keys may be missing."""
        if self._calls is None:
            self._calls = S3Calls(self._bucket, **self._options)
        return self._calls

    def asked(self, verb: str, name: str, call: Callable[[], T]) -> T:
        """The result of `call`, tried. A refusal is an error of the manifest or of the rights behind it:
        UserError."""
        try:
            return self.calls.tried(verb, name, call)
        except StoreRefused as error:
            raise UserError(f"{self._setting}: {error}") from error

    def objects(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(name below the prefix, entry of the listing); the object itself if the URL names one."""
        below = f"{self.prefix}/" if self.prefix else ""
        empty = True
        for entry in self._listed(below):
            empty = False
            yield entry["Key"][len(below) :], entry
        if empty and self.prefix:
            # Names come in the order of their bytes: an object of just this name is the first that begins
            # with it.
            for entry in self._listed(self.prefix, MaxKeys=1):
                if entry["Key"] == self.prefix:
                    yield self.prefix.rpartition("/")[2], entry
                return

    def has(self, file: Found) -> bool:
        """Whether a file is below the prefix, or the object that the URL names."""
        return f"{file.path}/".startswith(f"{self.where.removesuffix('/')}/")

    def _listed(self, prefix: str, **limits: Any) -> Iterator[dict[str, Any]]:
        token: dict[str, Any] = {}
        while True:
            ask = partial(self.calls.call, "list_objects_v2", Prefix=prefix, **limits, **token)
            page = self.asked("list", prefix, ask)
            yield from page.get("Contents", ())
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}


class S3Files:
    """`Files` in S3."""

    whole = True

    def __init__(self, looked_at: list[S3Place], pattern: str) -> None:
        self.where = ", ".join(place.where for place in looked_at)
        self._places = looked_at
        self._pattern = Glob(pattern)
        self._ahead = Ahead(self._whole)

    def expect(self, files: Sequence[Found]) -> None:
        for place in self._places:
            place.calls  # noqa: B018  # made by this thread, before others use it
        self._ahead.expect(files)

    def _whole(self, file: Found) -> bytes:
        return S3Ranges(self._place_of(file), file).whole()

    def listing(self, settled_only: bool, known: Container[str] = ()) -> list[Found]:
        found: dict[str, Found] = {}
        for place in self._places:
            for name, entry in place.objects():
                alone = entry["Key"] == place.prefix
                if alone or (
                    name
                    and not name.endswith("/")
                    and self._pattern.matches(name)
                    and not (settled_only and unsettled(name))
                ):
                    full = (
                        place.front
                        if alone and place.front
                        else f"{place.front}/{name}"
                        if place.front
                        else name
                    )
                    one = Found(full, place.root + entry["Key"], int(entry["Size"]), str(entry["ETag"]))
                    if found.setdefault(full, one).path != one.path:
                        raise UserError(
                            f"two objects have the name {full!r}: {one.path} and {found[full].path}"
                        )
        return [found[name] for name in sorted(found, key=lambda name: name.encode()) if name not in known]

    def open(self, file: Found, position: int = 0, *, growing: bool = False) -> IO[bytes]:
        # S3 answers a range behind the end, and any range of an empty object, with an error (416).
        if position >= file.size:
            return io.BytesIO()
        if position == 0 and (data := self._ahead.take(file)) is not None:
            return io.BytesIO(data)
        return io.BufferedReader(S3Stream(self._place_of(file), file, position), BUFFER)

    def open_seekable(self, file: Found) -> IO[bytes]:
        if (data := self._ahead.take(file)) is not None:
            return io.BytesIO(data)
        return io.BufferedReader(S3Ranges(self._place_of(file), file), BUFFER)

    def _place_of(self, file: Found) -> S3Place:
        return next(place for place in self._places if place.has(file))


class _S3Object(io.RawIOBase):
    """The version of an object that was listed."""

    def __init__(self, place: S3Place, file: Found) -> None:
        self._place, self._file = place, file
        self._key = file.path.removeprefix(place.root)
        self._begun = False

    def readable(self) -> bool:
        return True

    def _get(self, first: int, last: int | None) -> Any:
        """The body from byte `first` on. Raises FileNotFoundError or Corrupt."""
        span = f"bytes={first}-{'' if last is None else last}"
        answer = self._place.calls.call(
            "get_object", accept=MISSING | EXISTS, Key=self._key, Range=span, IfMatch=self._file.version
        )
        if answer is not None:
            self._begun = True
            return answer["Body"]
        there = self._place.calls.call("head_object", accept=MISSING, Key=self._key)
        # Once bytes of it were given, an object that is gone is lost data, and not a file that never was.
        if there is None and not self._begun:
            raise FileNotFoundError(f"{self._file.path} is gone since it was listed")
        what = (
            "gone" if there is None else f"another now (size {self._file.size}, now {there['ContentLength']})"
        )
        raise Corrupt(f"{self._file.path}: it was listed, and at byte {first} it is {what}. {CHANGED}")


class S3Stream(_S3Object):
    """From a byte to the end, by one request unless it breaks."""

    def __init__(self, place: S3Place, file: Found, position: int) -> None:
        super().__init__(place, file)
        self._position = position
        # At once, so that an object that is gone is found where it is opened.
        self._body: Any = place.asked("read", file.path, lambda: self._get(position, None))

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]  # any writable buffer
        data = self._place.asked("read", self._file.path, lambda: self._next(len(buffer)))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _next(self, size: int) -> bytes:
        if self._position >= self._file.size:
            return b""
        if self._body is None:
            self._body = self._get(self._position, None)
        try:
            with foreign_errors():
                data: bytes = self._body.read(size)
            # The object has more: what looks like its end is a connection that broke.
            if not data:
                raise AnswerLost(f"the answer ended at byte {self._position} of {self._file.size}")
        except AnswerLost:
            self._drop()
            raise
        return data

    def _drop(self) -> None:
        if self._body is not None:
            self._body.close()
            self._body = None

    def close(self) -> None:
        self._drop()
        super().close()


class S3Ranges(_S3Object):
    """An object that is read here and there, with a request a read: for Parquet, whose readers know how much
    they want."""

    def __init__(self, place: S3Place, file: Found) -> None:
        super().__init__(place, file)
        self._position = 0

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size}[whence]
        self._position = base + offset
        return self._position

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]  # any writable buffer
        last = min(self._position + len(buffer), self._file.size) - 1
        if last < self._position:
            return 0
        data = self._place.asked("read", self._file.path, lambda: self._range(last))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def whole(self) -> bytes:
        """All of it, by one request that is not made again."""
        return self._range(self._file.size - 1)

    def _range(self, last: int) -> bytes:
        body = self._get(self._position, last)
        with foreign_errors():
            data: bytes = body.read()
        return data
