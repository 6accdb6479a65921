"""A job's store, opened by the operator: with the job's keys, at an endpoint that the cluster's owner allows,
or not at all.

A store that names no keys would be opened with whatever this process finds (its environment, its node's
metadata): the operator's own identity, for a bucket that somebody else has written down. A job's spec is
refused before (jobs/admission.py); what a savepoint's status says, which others may have written, is seen
here for the first time.

Keeps: nothing is asked of an endpoint that is not allowed. Does not: look for keys.
"""

from flamestream.model.errors import UserError
from flamestream.ports import ObjectStore
from flamestream.store.places import Keys, store_from
from flamestream_operator.site import Allowed

SETTING = "the store"


def job_store(url: str, keys: Keys, allowed: Allowed) -> ObjectStore:
    """Raises UserError: no keys, no S3 store, or an endpoint that is not allowed."""
    if not all(keys):  # (!) a client without keys looks for some around itself
        raise UserError(
            f"{SETTING} {url} has no keys of its job, and the operator does not lend its own: name a Secret, "
            "checkpoint.secret"
        )
    if problem := allowed.refused_store(url, SETTING):
        raise UserError(problem)
    return store_from(url, setting=SETTING, keys=keys)
