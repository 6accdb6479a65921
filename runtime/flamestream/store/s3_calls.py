"""Calls to one bucket through boto3, and the one place where botocore's errors become ours: for sources,
whose keys are others' choice.

A call costs 3 to 4 ms of the interpreter; what an epoch needs goes another way (store/s3.py), which cannot
name every key.

Keeps: s3_answers.py's bounds; an error says what was called, where, and what to do. Does not: know what
objects mean.
"""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from flamestream.model.errors import FlameStreamError, UserError
from flamestream.store.s3_answers import CONNECT_SECONDS, READ_SECONDS, AnswerLost, judge, tried

T = TypeVar("T")


class S3Calls:
    """The calls to a bucket; keys come from where boto3 looks (environment, profile, instance). Safe to use
    from several threads."""

    def __init__(self, bucket: str, endpoint: str | None = None, region: str | None = None) -> None:
        self.bucket = bucket
        self.where = f"s3://{bucket}/" + (f" at {endpoint}" if endpoint else "")
        self.client = _client(self.where, endpoint, region)

    def call(self, operation: str, accept: frozenset[str] | set[str] = frozenset(), **arguments: Any) -> Any:
        """The answer to boto3's `operation`, or None if it is an error that the caller accepts. Raises
        AnswerLost, Refused, UserError."""
        from botocore.exceptions import ClientError

        with foreign_errors():
            try:
                return getattr(self.client, operation)(Bucket=self.bucket, **arguments)
            except ClientError as error:
                if _code(error) in accept:
                    return None
                raise

    def tried(self, verb: str, name: str, call: Callable[[], T]) -> T:
        """The result of `call`, tried as s3_answers.py says, with this bucket in its errors."""
        return tried(verb, name, self.where, call)


class foreign_errors:
    """The one place where botocore's errors become ours."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, FlameStreamError):
            return
        from botocore import exceptions as foreign

        if isinstance(error, (foreign.NoCredentialsError, foreign.PartialCredentialsError)):
            raise UserError(
                f"no S3 credentials: {error}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            ) from error
        if isinstance(error, foreign.ParamValidationError):
            raise UserError(f"S3 cannot take this: {error}; correct its URL in the manifest") from error
        if isinstance(error, foreign.ClientError):
            judge(_code(error), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0), error)
        if isinstance(error, (foreign.BotoCoreError, OSError)):
            raise AnswerLost(str(error)) from error


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _client(where: str, endpoint: str | None, region: str | None) -> Any:
    import boto3.session  # lazily: it costs 0.3 s, and few jobs need it
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    # where it found keys, each time, is no news
    logging.getLogger("botocore.credentials").setLevel(logging.WARNING)
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"total_max_attempts": 1, "mode": "standard"},
        s3={"addressing_style": "path" if endpoint else "auto"},
    )
    try:
        session = boto3.session.Session()
        return session.client(
            "s3",
            endpoint_url=endpoint,
            region_name=region or session.region_name or "us-east-1",
            config=config,
        )
    except (BotoCoreError, ValueError) as error:
        raise UserError(f"{where} cannot be used: {error}; correct its URL in the manifest") from error
