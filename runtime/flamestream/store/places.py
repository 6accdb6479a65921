"""The object store that a job's `checkpoint.store` names.

| store                                          | is |
|------------------------------------------------|-----|
| `/a/folder`, `a/folder`, `file:///a/folder`    | a folder |
| `s3://bucket/prefix`                           | S3; keys and region from the environment |
| `s3://bucket/prefix?endpoint=http://host:port` | another S3 server; also `&region=` |

>>> store_from("ftp://x")  # doctest: +NORMALIZE_WHITESPACE
Traceback (most recent call last):
flamestream.model.errors.UserError: checkpoint.store 'ftp://x' has an unknown scheme: use a folder, file:// or
s3://bucket/prefix

Does not: take keys in a URL; URLs end up in logs.
"""

import re
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from flamestream.model.errors import UserError
from flamestream.ports import ObjectStore
from flamestream.store.folder import LocalStore

Keys = tuple[str, str]
"""Access key and secret key of an S3 store, where they are not in the environment."""
_BUCKET: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._]{0,254}")
_REGION: Final = re.compile(r"[-A-Za-z0-9]{1,63}")
"""Bucket and region become parts of a host's name."""


def store_from(
    url: str, *, create: bool = False, setting: str = "checkpoint.store", keys: Keys | None = None
) -> ObjectStore:
    """The store that `url` names. `create` makes a folder that is missing; buckets are never made. `setting`
    is for messages.

    Without `keys`, boto3 finds them.
    """
    parts = urlsplit(url)
    if not parts.scheme:
        return LocalStore(_folder(url, url, setting), create=create)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise UserError(
                f"{setting} {url!r} names the host {parts.netloc!r}: write file:///folder with three slashes"
            )
        return LocalStore(_folder(unquote(parts.path), url, setting), create=create)
    if parts.scheme == "s3":
        return _s3(url, setting, keys)
    raise UserError(f"{setting} {url!r} has an unknown scheme: use a folder, file:// or s3://bucket/prefix")


def _s3(url: str, setting: str, keys: Keys | None) -> ObjectStore:
    from flamestream.store.s3 import S3Store  # lazily: few jobs on a laptop need it

    access_key, secret_key = keys or (None, None)
    bucket, prefix, options = parsed_s3(url, setting)
    endpoint, region = options.get("endpoint"), options.get("region")
    return S3Store(
        bucket, prefix, endpoint=endpoint, region=region, access_key=access_key, secret_key=secret_key
    )


def parsed_s3(url: str, setting: str) -> tuple[str, str, dict[str, str]]:
    """Bucket, prefix, and endpoint and region if the URL has them. Raises UserError."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(options.keys() - {"endpoint", "region"})
    if parts.scheme != "s3" or unknown or not parts.netloc or "@" in parts.netloc:
        raise UserError(
            f"{setting} {_without_secret(url)!r} must be s3://bucket/prefix with ?endpoint= and &region= if "
            "needed" + (f", not {', '.join(unknown)}" if unknown else "")
        )
    if not _BUCKET.fullmatch(parts.netloc) or not _REGION.fullmatch(options.get("region", "none")):
        raise UserError(
            f"{setting} {_without_secret(url)!r} cannot be used: a bucket is of letters, digits, dots, "
            "'_' and '-', a region of letters, digits and '-'"
        )
    endpoint = urlsplit(options.get("endpoint", "http://none"))
    if endpoint.scheme not in ("http", "https") or not endpoint.netloc:
        raise UserError(
            f"{setting} {_without_secret(url)!r} cannot be used: its endpoint must be http://HOST[:PORT] or "
            "https://HOST[:PORT]"
        )
    return parts.netloc, unquote(parts.path).strip("/"), options


def _folder(path: str, url: str, setting: str) -> Path:
    if not path:
        raise UserError(f"{setting} {url!r} names no folder")
    return Path(path).absolute()


def _without_secret(url: str) -> str:
    return urlsplit(url)._replace(netloc=urlsplit(url).netloc.rpartition("@")[2]).geturl()
