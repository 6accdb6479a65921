"""The object store on S3, or on anything that speaks S3 and keeps `If-None-Match: *`.

Creating is one conditional put. If an answer is lost (s3_answers.py) the put may or may not have happened: it
is tried again, and "exists already" then means "ours or another's", which reading back decides. Objects are
removed many at a time; from a store that does not know that request, one after the other.

Keeps: nothing is overwritten; an acknowledged object is there (S3's promise). Does not: create buckets, or
keep objects `a` and `a/b` apart (some servers cannot; the names in docs/reference/formats.md never do that).
"""

from collections.abc import Callable
from itertools import chain, repeat
from typing import TypeVar

import obstore
import tenacity
from obstore.exceptions import AlreadyExistsError

from flamestream.model.errors import Corrupt
from flamestream.store.object_names import check_name
from flamestream.store.s3_answers import (
    EXISTS,
    FIRST_SECONDS,
    MISSING,
    READ_SECONDS,
    TRIES,
    AnswerLost,
    Pause,
    Refused,
    tried,
)
from flamestream.store.s3_client import Bucket, Keys, answer_in, client_of, foreign_errors

__all__ = ["TRIES", "S3Store"]

T = TypeVar("T")


class S3Store:
    """`ports.ObjectStore` on the objects of `bucket` whose keys begin with `prefix`. Safe to use from several
    threads."""

    def __init__(
        self, bucket: str, prefix: str = "", *, endpoint: str | None = None, region: str | None = None,
        access_key: str | None = None, secret_key: str | None = None, read_seconds: float = READ_SECONDS,
        pause: Pause = tenacity.nap.sleep,
    ) -> None:  # fmt: skip
        """Keys that are not given come from the environment, or from where boto3 looks: now, which may take a
        moment. Raises UserError if there are none. `pause` is for tests."""
        keys = None if access_key is None else Keys(access_key, secret_key or "")
        self._bucket = Bucket(bucket, endpoint, region, keys, read_seconds)
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._where = f"s3://{bucket}/{self._prefix}" + (f" at {endpoint}" if endpoint else "")
        self._pause = pause
        client_of(self._bucket)

    def put_new(self, name: str, data: bytes | memoryview) -> bool:
        """Create the object. False if the name exists already with other bytes than an own lost try may have
        written."""
        key = self._key(name)
        lost = False

        def put(bucket: Bucket) -> bool:
            nonlocal lost
            try:
                return self._put(bucket, key, data)
            except AnswerLost:
                lost = True
                raise

        created = self._tried("write", name, put)
        # Without a lost try the name is another's, and nothing has to be read to know it.
        return created or (lost and self.get(name) == data)

    def get(self, name: str) -> bytes:
        """The object's bytes. Raises Corrupt naming it if there is none."""
        key = self._key(name)
        return self._tried("read", name, lambda bucket: self._get(bucket, key))

    def delete(self, *names: str) -> None:
        """Remove these objects; absent ones are fine."""
        keys = [self._key(name) for name in names]
        if keys:
            what = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
            self._tried("delete", what, lambda bucket: self._delete(bucket, keys))

    def names(self, prefix: str) -> list[str]:
        """Names that start with `prefix`, sorted. For people and orphans only."""
        return self._tried("list", prefix, lambda bucket: self._names(bucket, self._prefix + prefix))

    def _tried(self, verb: str, name: str, call: Callable[[Bucket], T]) -> T:
        """The first try is short, and the next ones come through connections of their own (!): those at hand
        may lead to a node that is gone, and such a one says nothing for as long as a slow server may take."""
        # (!) A connection to a node that is gone is as silent as a slow server: the first try is short.
        patience = chain([min(FIRST_SECONDS, self._bucket.seconds)], repeat(self._bucket.seconds))
        return tried(
            verb, name, self._where, lambda: call(self._bucket._replace(seconds=next(patience))), self._pause
        )

    def _put(self, bucket: Bucket, key: str, data: bytes | memoryview) -> bool:
        with foreign_errors():
            try:
                obstore.put(client_of(bucket, len(data)), key, data, mode="create", use_multipart=False)
            except AlreadyExistsError as error:
                answer = answer_in(error)
                if answer is not None and answer.code in EXISTS:
                    return False
                raise  # a conflict of two puts under way is no answer yet
        return True

    def _get(self, bucket: Bucket, key: str) -> bytes:
        with foreign_errors():
            try:
                return bytes(obstore.get(client_of(bucket), key).bytes())
            except FileNotFoundError as error:
                answer = answer_in(error)
                # a bucket that is not there is a 404 too
                if answer is None or answer.code not in MISSING:
                    raise
        raise Corrupt(
            f"object {key!r} is missing in {self._where}: restore it from a backup, "
            "or choose an older snapshot"
        )

    def _delete(self, bucket: Bucket, keys: list[str]) -> None:
        try:
            self._delete_in(bucket, keys)
        except Refused:
            if not bucket.bulk:
                raise
            self._delete_in(bucket._replace(bulk=False), keys)
            # it was the form that was refused, not who asked
            self._bucket = self._bucket._replace(bulk=False)

    def _delete_in(self, bucket: Bucket, keys: list[str]) -> None:
        with foreign_errors():
            obstore.delete(client_of(bucket), keys)

    def _names(self, bucket: Bucket, prefix: str) -> list[str]:
        folder = prefix.rpartition("/")[0]
        with foreign_errors():
            # For obstore a prefix is of whole parts of a path: what only begins so is picked below.
            pages = obstore.list(client_of(bucket), folder or None, chunk_size=1000)
            found = [entry["path"] for page in pages for entry in page]
        return sorted(key[len(self._prefix) :] for key in found if key.startswith(prefix))

    def _key(self, name: str) -> str:
        return self._prefix + check_name(name)
