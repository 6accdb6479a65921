"""S3's answers: what each means, and bounded tries for it, whatever client it came through.

A client's own retries are off, because they would hide that an earlier try was lost: after a time-out, a
broken connection or a 5xx nobody knows whether the call took effect.

Bounds: `TRIES` tries with random pauses of at most `MAX_PAUSE` seconds, none begun after `DEADLINE` seconds;
one try waits at most `CONNECT_SECONDS` to connect and `READ_SECONDS` for each part of an answer; a first try
through kept connections `FIRST_SECONDS`.

Keeps: an error says what was called, where, and what to do. Does not: call anything (store/s3.py,
s3_calls.py).
"""

from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

import tenacity

from flamestream.model.errors import StoreUnavailable

T = TypeVar("T")
Pause = Callable[[float], None]

TRIES: Final = 5
MAX_PAUSE: Final = 3.0
DEADLINE: Final = 45.0
CONNECT_SECONDS: Final = 3.0
READ_SECONDS: Final = 20.0
FIRST_SECONDS: Final = 4.0

MISSING: Final = {"NoSuchKey", "404", "NotFound"}
EXISTS: Final = {"PreconditionFailed", "412"}
_AGAIN: Final = {
    "ConditionalRequestConflict",
    "409",
    "SlowDown",
    "RequestTimeout",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
}
_NOT_OFFERED: Final = 501
_CONFLICT: Final = 409
"""Something else was under way on the same object: `OperationAborted`, and what other servers call it."""
_ADVICE: Final = {
    "NoSuchBucket": "create the bucket, or correct its name in the manifest",
    "AccessDenied": "give this key the rights GetObject, PutObject, DeleteObject and ListBucket on the "
    "bucket",
    "403": "give this key the rights GetObject, PutObject, DeleteObject and ListBucket on the bucket",
    "SignatureDoesNotMatch": "the secret key is wrong (or a clock is off by minutes): correct "
    "AWS_SECRET_ACCESS_KEY",
    "InvalidAccessKeyId": "the access key is not known there: correct AWS_ACCESS_KEY_ID",
    "ExpiredToken": "renew the session token",
    "RequestTimeTooSkewed": "set this machine's clock",
    "XMinioStorageFull": "free some space in the store",
}


class AnswerLost(Exception):
    """The request may or may not have taken effect; worth another try."""


class StoreRefused(StoreUnavailable):
    """The store answered that it will not: a wrong name, key or right. The same call would be answered the
    same."""


class Refused(Exception):
    """The store answered, and the same call would be answered the same."""


def judge(code: str, status: int, error: Exception) -> NoReturn:
    """Raise what an answer that is an error means: AnswerLost or Refused."""
    # 501 is for good: that server does not know such a request (a removal of many, say).
    if (status >= 500 and status != _NOT_OFFERED) or status == _CONFLICT or code in _AGAIN:
        raise AnswerLost(f"{code} (HTTP {status})") from error
    advice = _ADVICE.get(code, "see the store's log")
    raise Refused(f"{code} (HTTP {status}); {advice}") from error


def tried(verb: str, name: str, where: str, call: Callable[[], T], pause: Pause = tenacity.nap.sleep) -> T:
    """The result of `call`, made again while it raises AnswerLost. Raises StoreUnavailable at last, or
    StoreRefused without another try."""
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(AnswerLost),
        stop=tenacity.stop_after_attempt(TRIES) | tenacity.stop_after_delay(DEADLINE),
        wait=tenacity.wait_random_exponential(multiplier=0.1, max=MAX_PAUSE),
        sleep=pause,
        reraise=True,
    )
    try:
        return retrying(call)
    except AnswerLost as error:
        raise StoreUnavailable(
            f"cannot {verb} {name!r} in {where}: {error}; gave up after {TRIES} tries"
        ) from error
    except Refused as error:
        raise StoreRefused(f"cannot {verb} {name!r} in {where}: {error}") from error
