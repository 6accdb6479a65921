"""The client of S3 for what an epoch needs: whole objects, put, fetched, removed and listed by native code
that lets the interpreter go.

Through boto3 such a call held the interpreter for 3 to 4 ms, and an epoch took ten of them; here it is 0.3
ms, of which most without the interpreter (decision 043). boto3 is only asked for keys that are neither given
nor in the environment: profiles, single sign-on, roles.

Clients are shared: a process that serves many jobs has one for each bucket and set of keys, and more patient
ones for what is big.

Keeps: s3_answers.py's bounds for each part of an answer; an upload, of which nothing is heard until all of it
is there, has as long as a link of `SLOWEST` takes. Does not: try again (store/s3.py).
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from obstore.exceptions import BaseError
from obstore.store import S3Store as Client

from flamestream.model.errors import UserError
from flamestream.store.s3_answers import CONNECT_SECONDS, READ_SECONDS, AnswerLost, judge

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Config, S3Credential, S3CredentialProvider

SLOWEST: Final = 1 << 20
"""The slowest link that an upload is waited for, in bytes a second."""
LONGEST: Final = timedelta(hours=1)
"""The longest that a call may take in all, however slowly its parts come."""
_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_ROOTS: Final = "AWS_CA_BUNDLE"
_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_CAUSE: Final = re.compile(r'InvalidCertificate\(([^}]*)|message: "([^"]+)"')
"""In what obstore says below its first line: why there was no connection."""


class Keys(NamedTuple):
    """The keys that requests are signed with: a provider of credentials, which obstore calls for them."""

    access_key: str
    secret_key: str
    token: str | None = None
    """The session's, if these keys are lent."""

    def __call__(self) -> "S3Credential":
        return {
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
            "token": self.token,
            "expires_at": None,
        }


class Bucket(NamedTuple):
    """A bucket, and who asks for its objects with how much patience."""

    name: str
    endpoint: str | None = None
    region: str | None = None
    keys: Keys | None = None
    seconds: float = READ_SECONDS
    """The longest that each part of an answer may take."""
    bulk: bool = True
    """Whether one request may remove many objects."""


class Answer(NamedTuple):
    """An error that the server has answered with."""

    status: int
    code: str


def answer_in(error: Exception) -> Answer | None:
    """The answer that obstore's error tells of; None if the server said nothing."""
    # obstore's errors tell it in their text only
    status, code = _STATUS.search(str(error)), _CODE.search(str(error))
    return Answer(int(status[1]), code[1] if code else status[1]) if status else None


@contextmanager
def foreign_errors() -> Iterator[None]:
    """The one place where obstore's errors become ours: AnswerLost, Refused, or UserError for a prefix that
    no object can have."""
    try:
        yield
    except (BaseError, OSError) as error:
        found = answer_in(error)
        if found is None:
            raise AnswerLost(_first_line(error) + _cause(error)) from error
        judge(found.code, found.status, error)
    except ValueError as error:
        raise UserError(
            f"S3 cannot take this: {_first_line(error)}; correct its URL in the manifest"
        ) from error


def client_of(bucket: Bucket, size: int = 0) -> Client:
    """The shared client for an upload of `size` bytes. Raises UserError: no keys, or a place that cannot
    be."""
    # Looked up each time, as part of the cache's key: changed keys are another client.
    return _shared(_patient(bucket, size), bucket.keys or _environments_keys())


def _patient(bucket: Bucket, size: int) -> Bucket:
    """The bucket with time enough for so many bytes: doubled until it is, so that there are few clients."""
    seconds = bucket.seconds
    while seconds * SLOWEST < size:
        seconds *= 2
    return bucket._replace(seconds=seconds)


def _environments_keys() -> Keys | None:
    """Keys of the environment, as they are now."""
    access, secret = map(os.environ.get, _KEYS)
    return Keys(access, secret, os.environ.get("AWS_SESSION_TOKEN") or None) if access and secret else None


@lru_cache(maxsize=256)
def _shared(bucket: Bucket, keys: Keys | None) -> Client:
    # Keys go along as a provider and never as settings (!): then the environment's session token would be
    # taken for theirs.
    return _with_found_keys(bucket) if keys is None else _made(bucket, keys)


def _with_found_keys(bucket: Bucket) -> Client:
    """With keys from where boto3 looks, which is asked again before they run out."""
    import boto3.session
    from botocore.exceptions import BotoCoreError
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        session = boto3.session.Session()
        provider = Boto3CredentialProvider(session, ttl=timedelta(minutes=5))
    except (BotoCoreError, ValueError) as error:
        raise UserError(
            f"no S3 credentials for s3://{bucket.name}: {error}; set {_KEYS[0]} and {_KEYS[1]}"
        ) from error
    return _made(bucket._replace(region=bucket.region or session.region_name), provider)


def _made(bucket: Bucket, keys: "S3CredentialProvider") -> Client:
    known = os.environ.get
    endpoint = bucket.endpoint or known("AWS_ENDPOINT_URL_S3") or known("AWS_ENDPOINT_URL")
    # S3's certificate does not cover the host of a bucket with dots in its name.
    where: S3Config = (
        {"endpoint": endpoint} if endpoint else {"virtual_hosted_style_request": "." not in bucket.name}
    )
    region = bucket.region or known("AWS_REGION") or known("AWS_DEFAULT_REGION") or "us-east-1"
    config: S3Config = {**where, "region": region, "disable_bulk_delete": not bucket.bulk}
    options = _options(bucket)
    try:
        return Client(
            bucket.name,
            config=config,
            client_options=options,
            retry_config={"max_retries": 0},
            credential_provider=keys,
        )
    except (BaseError, ValueError) as error:
        raise UserError(
            f"s3://{bucket.name} cannot be used: {_first_line(error)}; correct its URL in the manifest"
        ) from error


def _options(bucket: Bucket) -> "ClientConfig":
    options: ClientConfig = {
        "allow_http": True,
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "read_timeout": timedelta(seconds=bucket.seconds),
        # left out it is 30 s for all of a call, however much is on its way
        "timeout": LONGEST,
    }
    if file := os.environ.get(_ROOTS):
        options["root_certificate"] = _root_certificates(file)
    return options


def _root_certificates(file: str) -> bytes:
    """As boto3 would trust them."""
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UserError(
            f"{_ROOTS}={file} cannot be read: {error.strerror}; correct it, or unset it"
        ) from error


def _cause(error: Exception) -> str:
    found = _CAUSE.search(str(error))
    if found is None:
        return ""
    return (
        f" ({found[2]})"
        if found[2]
        else f" (certificate refused: {' '.join(re.findall('[A-Za-z]+', found[1]))})"
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
