"""Calls to one bucket of S3, or of anything that speaks S3: bounded tries, and the one place where botocore's errors become ours.

botocore's own retries are off, because they would hide that an earlier try was lost: after a time-out, a broken connection or a 5xx
nobody knows whether the call took effect.

Bounds: `TRIES` tries with random pauses of at most `MAX_PAUSE` seconds, none begun after `DEADLINE` seconds; one try waits at most
`CONNECT_SECONDS` to connect and `READ_SECONDS` for each part of an answer.

Keeps: an error says what was called, where, and what to do. Does not: know what objects mean (s3_store.py, sources/s3_files.py).
"""

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeVar

import tenacity

from flamestream.model.errors import FlameStreamError, StoreUnavailable, UserError

T = TypeVar("T")

TRIES: Final = 5
MAX_PAUSE: Final = 3.0
DEADLINE: Final = 45.0
CONNECT_SECONDS: Final = 3.0
READ_SECONDS: Final = 20.0

MISSING: Final = {"NoSuchKey", "404", "NotFound"}
EXISTS: Final = {"PreconditionFailed", "412"}
_AGAIN: Final = {"ConditionalRequestConflict", "409", "SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "TooManyRequests"}
_ADVICE: Final = {
    "NoSuchBucket": "create the bucket, or correct its name in the manifest",
    "AccessDenied": "give this key the rights GetObject, PutObject, DeleteObject and ListBucket on the bucket",
    "403": "give this key the rights GetObject, PutObject, DeleteObject and ListBucket on the bucket",
    "SignatureDoesNotMatch": "the secret key is wrong (or a clock is off by minutes): correct AWS_SECRET_ACCESS_KEY",
    "InvalidAccessKeyId": "the access key is not known there: correct AWS_ACCESS_KEY_ID",
    "ExpiredToken": "renew the session token",
    "RequestTimeTooSkewed": "set this machine's clock",
    "XMinioStorageFull": "free some space in the store",
}


class AnswerLost(Exception):
    """The request may or may not have taken effect; worth another try."""


class StoreRefused(StoreUnavailable):
    """The store answered that it will not: a wrong name, key or right. The same call would be answered the same."""


class S3Calls:
    """One bucket, and the keys below `prefix`. Safe to use from several threads."""

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
        self.bucket = bucket
        self.prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self.where = f"s3://{bucket}/{self.prefix}" + (f" at {endpoint}" if endpoint else "")
        self.client = _client(self.where, endpoint, region, access_key, secret_key, read_seconds)
        self._pause = pause

    def call(self, operation: str, accept: frozenset[str] | set[str] = frozenset(), **arguments: Any) -> Any:
        """The answer, or None if it is an error that the caller accepts."""
        from botocore.exceptions import ClientError

        with foreign_errors():
            try:
                return getattr(self.client, operation)(Bucket=self.bucket, **arguments)
            except ClientError as error:
                if _code(error) in accept:
                    return None
                raise

    def tried(self, verb: str, name: str, call: Callable[[], T]) -> T:
        """What `call` gives, which may raise AnswerLost a few times. Raises StoreUnavailable, or StoreRefused without another try."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(AnswerLost),
            stop=tenacity.stop_after_attempt(TRIES) | tenacity.stop_after_delay(DEADLINE),
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=MAX_PAUSE),
            sleep=self._pause,
            reraise=True,
        )
        try:
            return retrying(call)
        except AnswerLost as error:
            raise StoreUnavailable(f"cannot {verb} {name!r} in {self.where}: {error}; gave up after {TRIES} tries") from error
        except _Refused as error:
            raise StoreRefused(f"cannot {verb} {name!r} in {self.where}: {error}") from error


class _Refused(Exception):
    """The store answered, and the same call would be answered the same."""


class foreign_errors:
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
            raise UserError(f"S3 cannot take this: {error}; correct its URL in the manifest") from error
        if isinstance(error, foreign.ClientError):
            _refused_or_lost(error)
        if isinstance(error, (foreign.BotoCoreError, OSError)):
            raise AnswerLost(str(error)) from error


def _refused_or_lost(error: Any) -> NoReturn:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = _code(error)
    if status >= 500 or code in _AGAIN:
        raise AnswerLost(f"{code} (HTTP {status})") from error
    advice = _ADVICE.get(code, "see the store's log")
    raise _Refused(f"{code} (HTTP {status}); {advice}") from error


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _client(
    where: str, endpoint: str | None, region: str | None, access_key: str | None, secret_key: str | None, read_seconds: float
) -> Any:
    from botocore.exceptions import BotoCoreError  # lazily: it costs 0.3 s, and a job on a folder never needs it

    try:
        if access_key is None:  # keys from the environment, which may change
            return _new_client(endpoint, region, None, None, read_seconds)
        return _shared_client(endpoint, region, access_key, secret_key, read_seconds)
    except (BotoCoreError, ValueError) as error:
        raise UserError(f"{where} cannot be used: {error}; correct its URL in the manifest") from error


@lru_cache(maxsize=64)
def _shared_client(endpoint: str | None, region: str | None, access_key: str, secret_key: str | None, read_seconds: float) -> Any:
    """Threads may share a client, and one costs megabytes: a process that serves many jobs has one for each set of keys."""
    return _new_client(endpoint, region, access_key, secret_key, read_seconds)


def _new_client(endpoint: str | None, region: str | None, access_key: str | None, secret_key: str | None, read_seconds: float) -> Any:
    import boto3.session
    from botocore.config import Config

    logging.getLogger("botocore.credentials").setLevel(logging.WARNING)  # where it found keys, each time, is no news
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
