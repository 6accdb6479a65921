"""The inputs of a job's start: its run's token, the keys of its store, its application, the leave of a job of
another cluster.

Keeps: what is not there is told with its field and looked for again, not before a while. Does not: write
anything but a run's token.
"""

import asyncio
import base64
import logging
import secrets
from typing import Final

from flamestream.model.errors import FlameStreamError
from flamestream_operator.jobs import actions as do
from flamestream_operator.jobs.decide import status_of
from flamestream_operator.jobs.handlers import Handler, Tools
from flamestream_operator.jobs.memory import Memory
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.kube.cache import Key
from flamestream_operator.objects.meta import Object, is_owned
from flamestream_operator.objects.small import digest_of_application

READ_AGAIN: Final = 10.0
"""Seconds."""

log = logging.getLogger(__name__)


class JobInputs:
    """Handlers by action."""

    def __init__(self, tools: Tools) -> None:
        self._api, self._again, self._instant = tools.api, tools.again, tools.instant
        self._hosting = tools.hosting
        self.handlers: Final[dict[type[object], Handler]] = {
            do.ReadSecrets: self._read_secrets,
            do.ReadApplication: self._read_application,
            do.ReadLeave: self._read_leave,
        }

    async def keys(self, namespace: str, name: str) -> tuple[str, str]:
        """Access key and secret key of a job's store. Raises LookupError or ApiProblem."""
        if not name:
            raise LookupError(
                "spec.checkpoint.secret: missing: name the Secret with the store's keys, the operator does "
                "not lend its own"
            )
        found = await self._api.get("Secret", namespace, name)
        if found is None:
            missing = f"there is no Secret {name!r} in namespace {namespace!r}"
            raise LookupError(f"spec.checkpoint.secret: {missing}: create it with the store's keys")
        data = found.get("data") or {}
        lacks = [each for each in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if each not in data]
        if lacks:
            raise LookupError(
                f"spec.checkpoint.secret: Secret {name!r} has no {' and no '.join(lacks)}: "
                "add what is missing"
            )
        return _text(found, "AWS_ACCESS_KEY_ID"), _text(found, "AWS_SECRET_ACCESS_KEY")

    async def _read_secrets(self, key: Key, memory: Memory, job: Object, action: do.ReadSecrets) -> bool:
        if self._instant() < memory.read_again.get("secrets", 0):
            return False
        try:
            token = await self._token(key, job, action)
            keys = await self.keys(key[0], action.credentials)
        except (ApiProblem, LookupError) as problem:
            text = str(problem.args[0]) if isinstance(problem, LookupError) else str(problem)
            # The same problem again is nothing new to look at: `_later` brings the next look.
            news = text != memory.secrets_problem
            memory.secrets_problem = text
            self._later(key, memory, "secrets")
            return news
        memory.token, memory.keys, memory.secrets_problem = token, keys, ""
        memory.token_run = status_of(job).run.number
        return True

    async def _token(self, key: Key, job: Object, action: do.ReadSecrets) -> str:
        name = action.token["metadata"]["name"]
        found = await self._made(key, action.token) if action.create else None
        found = found or await self._api.get("Secret", key[0], name)
        # (!) a token of an earlier life lets its workers in
        if found is not None and not is_owned(found, job):
            raise ApiProblem(
                503,
                "EarlierLife",
                f"Secret {name} is not of this life of the job: it is about to be removed, or delete it",
            )
        if found is None:
            raise LookupError(
                f"Secret {name} with the run's token is gone: suspend and resume the job, "
                "the next run makes another"
            )
        return _text(found, "token")

    async def _made(self, key: Key, token: Object) -> Object | None:
        """The token's Secret, made now, as a run that begins mostly needs it; None: it is there already."""
        try:
            return await self._api.create(drawn(token))
        except ApiProblem as problem:
            if problem.exists:
                # By a try whose answer was lost, or by a leader before: workers may have it.
                return None
            # A quota that is used up is no reason either, if it is there.
            found = await self._api.get("Secret", key[0], token["metadata"]["name"])
            if found is None:
                raise
            return found

    async def _read_application(
        self, key: Key, memory: Memory, job: Object, action: do.ReadApplication
    ) -> bool:
        if self._instant() < memory.read_again.get("application", 0):
            return False
        found = await self._api.get("ConfigMap", key[0], action.name)
        if found is None:
            missing = f"there is no ConfigMap {action.name!r} in namespace {key[0]!r}"
            memory.app_problem = (
                f"spec.application.configMap: {missing}: create it from the application's files"
            )
            self._later(key, memory, "application")
        else:
            memory.app, memory.app_digest, memory.app_problem = found, digest_of_application(found), ""
        return True

    async def _read_leave(self, key: Key, memory: Memory, job: Object, action: do.ReadLeave) -> bool:
        if self._instant() < memory.read_again.get("leave", 0):
            return False
        self._later(key, memory, "leave")
        before = memory.leave
        try:
            memory.leave = await asyncio.wrap_future(self._hosting.leave(action.job))
        except (
            FlameStreamError
        ) as problem:  # it stays as it was read last: who asks is judged by the other's spec
            log.warning("a leave cannot be read", extra={"job": action.job, "reason": str(problem)})
        return memory.leave != before

    def _later(self, key: Key, memory: Memory, what: str) -> None:
        """Look again for `what` was missing, and not before a while."""
        memory.read_again[what] = self._instant() + READ_AGAIN
        # A little behind the moment: a look before it would do nothing, and ask for no other.
        asyncio.get_running_loop().call_later(READ_AGAIN + 0.1, self._again, key)


def drawn(secret: Object) -> Object:
    """A Secret to be made, with values of 256 bits."""
    return {**secret, "stringData": {name: secrets.token_hex(32) for name in secret["stringData"]}}


def _text(secret: Object, field: str) -> str:
    """The text of one field of a Secret. Raises LookupError that names both."""
    try:
        return base64.b64decode(secret["data"][field], validate=True).decode()
    except (KeyError, TypeError, ValueError):
        raise LookupError(
            f"Secret {secret['metadata']['name']!r}: {field} is not there, or not text in base64: "
            "make it anew"
        ) from None
