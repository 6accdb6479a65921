"""The object store on S3, or on anything that speaks S3 and keeps `If-None-Match: *`.

Creating is one conditional put. If an answer is lost (time-out, broken connection, 5xx) the put may or may not have happened: it is
tried again, and "exists already" then means "ours or another's", which reading back decides. botocore's own retries are off, because
they would hide that an earlier try was lost.

Bounds: `TRIES` tries with random pauses of at most `MAX_PAUSE` seconds, none begun after `DEADLINE` seconds; one try waits at most
`CONNECT_SECONDS` to connect and `READ_SECONDS` for each part of an answer.

Keeps: nothing is overwritten; an acknowledged object is there (S3's promise). Does not: create buckets, or keep objects `a` and `a/b`
apart (some servers cannot; the names in docs/formats.md never do that).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeVar

import tenacity

from flamestream.adapters.object_names import check_name
from flamestream.model.errors import Corrupt, FlameStreamError, StoreUnavailable, UserError

T = TypeVar("T")

TRIES: Final = 5
MAX_PAUSE: Final = 3.0
DEADLINE: Final = 45.0
CONNECT_SECONDS: Final = 3.0
READ_SECONDS: Final = 20.0

_MISSING: Final = {"NoSuchKey", "404", "NotFound"}
_EXISTS: Final = {"PreconditionFailed", "412"}
_AGAIN: Final = {"ConditionalRequestConflict", "409", "SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "TooManyRequests"}
_ADVICE: Final = {
    "NoSuchBucket": "create the bucket, or correct its name in the job's checkpoint.store",
    "AccessDenied": "give this key the rights GetObject, PutObject, DeleteObject and ListBucket on the bucket",
    "403": "give this key the rights GetObject, PutObject, DeleteObject and ListBucket on the bucket",
    "SignatureDoesNotMatch": "the secret key is wrong (or a clock is off by minutes): correct AWS_SECRET_ACCESS_KEY",
    "InvalidAccessKeyId": "the access key is not known there: correct AWS_ACCESS_KEY_ID",
    "ExpiredToken": "renew the session token",
    "RequestTimeTooSkewed": "set this machine's clock",
    "XMinioStorageFull": "free some space in the store",
}


class _AnswerLost(Exception):
    """The request may or may not have taken effect; worth another try."""


class S3Store:
    """`ports.ObjectStore` on the objects of `bucket` whose keys begin with `prefix`. Safe to use from several threads."""

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint: str | None = None,
        region: str | None = None,
        access_key: str | None = None,
        secret_key: str | None = None,
        read_seconds: float = READ_SECONDS,
        pause: Callable[[float], None] = tenacity.nap.sleep,
    ) -> None:
        """Keys that are not given come from where boto3 looks (environment, profile, instance). `pause` is for tests."""
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._where = f"s3://{bucket}/{self._prefix}" + (f" at {endpoint}" if endpoint else "")
        self._client = _client(self._where, endpoint, region, access_key, secret_key, read_seconds)
        self._pause = pause

    def put_new(self, name: str, data: bytes) -> bool:
        """Create the object. False if the name exists already with other bytes than an own lost try may have written."""
        key = self._key(name)
        lost = False

        def put() -> bool:
            nonlocal lost
            try:
                return self._put(key, data)
            except _AnswerLost:
                lost = True
                raise

        created = self._tried("write", name, put)
        return created or (lost and self.get(name) == data)

    def get(self, name: str) -> bytes:
        """Its bytes. Raises Corrupt naming it if there is none."""
        key = self._key(name)
        return self._tried("read", name, lambda: self._get(key))

    def delete(self, name: str) -> None:
        """Remove it; absent is fine."""
        key = self._key(name)
        self._tried("delete", name, lambda: self._call("delete_object", Key=key))

    def names(self, prefix: str) -> list[str]:
        """Names that start with `prefix`, sorted. For people and orphans only."""
        return self._tried("list", prefix, lambda: self._names(prefix))

    def _put(self, key: str, data: bytes) -> bool:
        answer = self._call("put_object", accept=_EXISTS, Key=key, Body=data, IfNoneMatch="*")
        return answer is not None

    def _get(self, key: str) -> bytes:
        answer = self._call("get_object", accept=_MISSING, Key=key)
        if answer is None:
            raise Corrupt(f"object {key!r} is missing in {self._where}: restore it from a backup, or choose an older snapshot")
        with _foreign_errors():
            data: bytes = answer["Body"].read()
        return data

    def _names(self, prefix: str) -> list[str]:
        found: list[str] = []
        token: dict[str, Any] = {}
        while True:
            page = self._call("list_objects_v2", Prefix=self._prefix + prefix, **token)
            found += [entry["Key"][len(self._prefix) :] for entry in page.get("Contents", ())]
            if not page.get("IsTruncated"):
                return sorted(found)
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def _call(self, operation: str, accept: frozenset[str] | set[str] = frozenset(), **arguments: Any) -> Any:
        """The answer, or None if it is an error that the caller accepts."""
        from botocore.exceptions import ClientError

        with _foreign_errors():
            try:
                return getattr(self._client, operation)(Bucket=self._bucket, **arguments)
            except ClientError as error:
                if _code(error) in accept:
                    return None
                raise

    def _tried(self, verb: str, name: str, call: Callable[[], T]) -> T:
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_AnswerLost),
            stop=tenacity.stop_after_attempt(TRIES) | tenacity.stop_after_delay(DEADLINE),
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=MAX_PAUSE),
            sleep=self._pause,
            reraise=True,
        )
        try:
            return retrying(call)
        except _AnswerLost as error:
            raise StoreUnavailable(f"cannot {verb} {name!r} in {self._where}: {error}; gave up after {TRIES} tries") from error
        except _Refused as error:
            raise StoreUnavailable(f"cannot {verb} {name!r} in {self._where}: {error}") from error

    def _key(self, name: str) -> str:
        return self._prefix + check_name(name)


class _Refused(Exception):
    """The store answered, and the same call would be answered the same."""


class _foreign_errors:
    """The one place where botocore's errors become ours."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, FlameStreamError):
            return
        from botocore import exceptions as foreign

        if isinstance(error, (foreign.NoCredentialsError, foreign.PartialCredentialsError)):
            raise UserError(f"no S3 credentials: {error}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") from error
        if isinstance(error, foreign.ParamValidationError):
            raise UserError(f"S3 cannot take this: {error}; correct the job's checkpoint.store") from error
        if isinstance(error, foreign.ClientError):
            _refused_or_lost(error)
        if isinstance(error, (foreign.BotoCoreError, OSError)):
            raise _AnswerLost(str(error)) from error


def _refused_or_lost(error: Any) -> NoReturn:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = _code(error)
    if status >= 500 or code in _AGAIN:
        raise _AnswerLost(f"{code} (HTTP {status})") from error
    advice = _ADVICE.get(code, "see the store's log")
    raise _Refused(f"{code} (HTTP {status}); {advice}") from error


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _client(
    where: str, endpoint: str | None, region: str | None, access_key: str | None, secret_key: str | None, read_seconds: float
) -> Any:
    from botocore.exceptions import BotoCoreError  # lazily: it costs 0.3 s, and a job on a folder never needs it

    try:
        return _shared_client(endpoint, region, access_key, secret_key, read_seconds)
    except (BotoCoreError, ValueError) as error:
        raise UserError(f"{where} cannot be used: {error}; correct the job's checkpoint.store") from error


@lru_cache(maxsize=64)
def _shared_client(endpoint: str | None, region: str | None, access_key: str | None, secret_key: str | None, read_seconds: float) -> Any:
    """Threads may share a client, and one costs megabytes: a process that serves many jobs has one for each set of keys."""
    import boto3.session
    from botocore.config import Config

    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        retries={"total_max_attempts": 1, "mode": "standard"},
        s3={"addressing_style": "path" if endpoint else "auto"},
    )
    session = boto3.session.Session()
    return session.client(
        "s3",
        endpoint_url=endpoint,
        region_name=region or session.region_name or "us-east-1",
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        config=config,
    )
