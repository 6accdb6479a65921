"""The client of S3 for what an epoch needs: whole objects, put, fetched, removed and listed by native code that lets the interpreter go.

Through boto3 such a call held the interpreter for 3 to 4 ms, and an epoch took ten of them; here it is 0.3 ms, of which most without the
interpreter (decision 043). boto3 is only asked for keys that are neither given nor in the environment: profiles, single sign-on, roles.

Clients are shared: a process that serves many jobs has one for each bucket and set of keys, and more patient ones for what is big.

Keeps: s3_answers.py's bounds for each part of an answer; an upload, of which nothing is heard until all of it is there, has as long as
a link of `SLOWEST` takes. Does not: try again (store/s3.py).
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from obstore.exceptions import BaseError
from obstore.store import S3Store as Client

from flamestream.model.errors import UserError
from flamestream.store.s3_answers import CONNECT_SECONDS, READ_SECONDS, AnswerLost, judge

SLOWEST: Final = 1 << 20
"""Bytes a second."""
LONGEST: Final = timedelta(hours=1)
"""Of a call in all, however slowly its parts come."""
_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_ROOTS: Final = "AWS_CA_BUNDLE"
_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_CAUSE: Final = re.compile(r'InvalidCertificate\(([^}]*)|message: "([^"]+)"')
"""In what obstore says below its first line: why there was no connection."""


class Bucket(NamedTuple):
    """Which one, and who asks."""

    name: str
    endpoint: str | None = None
    region: str | None = None
    access_key: str | None = None
    secret_key: str | None = None
    seconds: float = READ_SECONDS
    """That each part of an answer may take."""
    bulk: bool = True
    """Whether many objects can be removed by one request."""


class Answer(NamedTuple):
    """An error that the server has answered with."""

    status: int
    code: str


def answer_in(error: Exception) -> Answer | None:
    """What the server said; None if it said nothing."""
    status, code = _STATUS.search(str(error)), _CODE.search(str(error))
    return Answer(int(status[1]), code[1] if code else status[1]) if status else None


@contextmanager
def foreign_errors() -> Iterator[None]:
    """The one place where obstore's errors become ours: AnswerLost, Refused, or UserError for a prefix that no object can have."""
    try:
        yield
    except (BaseError, OSError) as error:
        found = answer_in(error)
        if found is None:
            raise AnswerLost(_first_line(error) + _cause(error)) from error
        judge(found.code, found.status, error)
    except ValueError as error:
        raise UserError(f"S3 cannot take this: {_first_line(error)}; correct its URL in the manifest") from error


def client_of(bucket: Bucket, size: int = 0) -> Client:
    """For an upload of `size` bytes. Raises UserError: no keys, or a place that cannot be."""
    patient = _patient(bucket, size)
    if bucket.access_key is None and not all(os.environ.get(key) for key in _KEYS):
        return _with_found_keys(patient)
    keys = tuple(os.environ.get(key) for key in (*_KEYS, "AWS_SESSION_TOKEN")) if bucket.access_key is None else ()
    return _shared(patient, keys)


def _patient(bucket: Bucket, size: int) -> Bucket:
    """Twice as much time again and again, so that there are few clients."""
    seconds = bucket.seconds
    while seconds * SLOWEST < size:
        seconds *= 2
    return bucket._replace(seconds=seconds)


@lru_cache(maxsize=128)
def _shared(bucket: Bucket, keys: tuple[str | None, ...]) -> Client:
    """`keys`: of the environment, which may change."""
    if not keys:
        return _made(bucket, credential_provider=_given(bucket))
    access, secret, token = keys
    given = {"access_key_id": access, "secret_access_key": secret} | ({"session_token": token} if token else {})
    return _made(bucket, **given)


def _given(bucket: Bucket) -> Callable[[], dict[str, Any]]:
    """A provider, because a client looks for what it is not told in the environment (!): this process's session token would go along."""
    keys = {"access_key_id": bucket.access_key, "secret_access_key": bucket.secret_key, "expires_at": None}
    return lambda: keys


@lru_cache(maxsize=128)
def _with_found_keys(bucket: Bucket) -> Client:
    """Where boto3 looks. They are asked for again before they run out."""
    import boto3.session
    from botocore.exceptions import BotoCoreError
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        session = boto3.session.Session()
        provider = Boto3CredentialProvider(session, ttl=timedelta(minutes=5))
    except (BotoCoreError, ValueError) as error:
        raise UserError(f"no S3 credentials for s3://{bucket.name}: {error}; set {_KEYS[0]} and {_KEYS[1]}") from error
    return _made(bucket._replace(region=bucket.region or session.region_name), credential_provider=provider)


def _made(bucket: Bucket, **keys: Any) -> Client:
    endpoint = bucket.endpoint or _variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    where = {"endpoint": endpoint} if endpoint else {"virtual_hosted_style_request": "." not in bucket.name}
    region = bucket.region or _variable("AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1"
    how = {"client_options": _options(bucket), "retry_config": {"max_retries": 0}, "disable_bulk_delete": not bucket.bulk}
    try:
        return Client(bucket.name, region=region, **how, **where, **keys)
    except (BaseError, ValueError) as error:
        raise UserError(f"s3://{bucket.name} cannot be used: {_first_line(error)}; correct its URL in the manifest") from error


def _variable(*names: str) -> str | None:
    """The first of these environment variables that is set."""
    return next((found for name in names if (found := os.environ.get(name))), None)


def _options(bucket: Bucket) -> Any:
    roots = {"root_certificate": _root_certificates(file)} if (file := os.environ.get(_ROOTS)) else {}
    return {
        "allow_http": True,
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "read_timeout": timedelta(seconds=bucket.seconds),
        "timeout": LONGEST,
        **roots,
    }


def _root_certificates(file: str) -> bytes:
    """As boto3 would trust them."""
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UserError(f"{_ROOTS}={file} cannot be read: {error.strerror}; correct it, or unset it") from error


def _cause(error: Exception) -> str:
    found = _CAUSE.search(str(error))
    if found is None:
        return ""
    return f" ({found[2]})" if found[2] else f" (certificate refused: {' '.join(re.findall('[A-Za-z]+', found[1]))})"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
