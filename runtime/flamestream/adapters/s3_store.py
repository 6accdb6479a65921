"""The object store on S3, or on anything that speaks S3 and keeps `If-None-Match: *`.

Creating is one conditional put. If an answer is lost (s3_calls.py) the put may or may not have happened: it is tried again, and "exists
already" then means "ours or another's", which reading back decides.

Keeps: nothing is overwritten; an acknowledged object is there (S3's promise). Does not: create buckets, or keep objects `a` and `a/b`
apart (some servers cannot; the names in docs/formats.md never do that).
"""

from typing import Any

from flamestream.adapters.object_names import check_name
from flamestream.adapters.s3_calls import EXISTS, MISSING, TRIES, AnswerLost, S3Calls, foreign_errors
from flamestream.model.errors import Corrupt

__all__ = ["TRIES", "S3Store"]


class S3Store:
    """`ports.ObjectStore` on the objects of `bucket` whose keys begin with `prefix`. Safe to use from several threads."""

    def __init__(self, bucket: str, prefix: str = "", **settings: Any) -> None:
        """Settings: those of `S3Calls`."""
        self._calls = S3Calls(bucket, prefix, **settings)
        self._prefix = self._calls.prefix
        self._client = self._calls.client

    def put_new(self, name: str, data: bytes) -> bool:
        """Create the object. False if the name exists already with other bytes than an own lost try may have written."""
        key = self._key(name)
        lost = False

        def put() -> bool:
            nonlocal lost
            try:
                return self._put(key, data)
            except AnswerLost:
                lost = True
                raise

        created = self._calls.tried("write", name, put)
        return created or (lost and self.get(name) == data)

    def get(self, name: str) -> bytes:
        """Its bytes. Raises Corrupt naming it if there is none."""
        key = self._key(name)
        return self._calls.tried("read", name, lambda: self._get(key))

    def delete(self, name: str) -> None:
        """Remove it; absent is fine."""
        key = self._key(name)
        self._calls.tried("delete", name, lambda: self._calls.call("delete_object", Key=key))

    def names(self, prefix: str) -> list[str]:
        """Names that start with `prefix`, sorted. For people and orphans only."""
        return self._calls.tried("list", prefix, lambda: self._names(prefix))

    def _put(self, key: str, data: bytes) -> bool:
        answer = self._calls.call("put_object", accept=EXISTS, Key=key, Body=data, IfNoneMatch="*")
        return answer is not None

    def _get(self, key: str) -> bytes:
        answer = self._calls.call("get_object", accept=MISSING, Key=key)
        if answer is None:
            raise Corrupt(f"object {key!r} is missing in {self._calls.where}: restore it from a backup, or choose an older snapshot")
        with foreign_errors():
            data: bytes = answer["Body"].read()
        return data

    def _names(self, prefix: str) -> list[str]:
        found: list[str] = []
        token: dict[str, Any] = {}
        while True:
            page = self._calls.call("list_objects_v2", Prefix=self._prefix + prefix, **token)
            found += [entry["Key"][len(self._prefix) :] for entry in page.get("Contents", ())]
            if not page.get("IsTruncated"):
                return sorted(found)
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def _key(self, name: str) -> str:
        return self._prefix + check_name(name)
