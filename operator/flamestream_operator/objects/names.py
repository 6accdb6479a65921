"""Names of everything that belongs to a job: they fit, they differ, and the same thing always has the same
one.

>>> driver_pod("inverted-index", "a", 3)
'inverted-index-driver-a-3'
>>> len(driver_pod("x" * 63, "a", 3))
63
>>> driver_pod("x" * 63, "a", 3) == driver_pod("x" * 62 + "y", "a", 3)
False

Every kind has a suffix of its own, so no job's object has the name of another job's. Where a name has to be
cut, the hash of all of it tells it apart; who creates an object still looks whose it is.

Does not: say what an object holds.
"""

from typing import Final

from flamestream.job.object_names import LONGEST as LONGEST
from flamestream.job.object_names import application_copy as application_copy
from flamestream.job.object_names import fitted as fitted
from flamestream.job.object_names import queries as queries
from flamestream.job.object_names import zookeeper as zookeeper

LONGEST_PREFIX: Final = 47
"""Spark's limit for the prefix of its executors' names."""


def driver_pod(job: str, application: str, launch: int) -> str:
    """The driver pod of one launch: never used again. Its ConfigMap has the same name."""
    return fitted(job, f"-driver-{application}-{launch}")


def executor_prefix(job: str, application: str, launch: int) -> str:
    """The beginning of the names of a launch's executors."""
    return fitted(job, f"-{application}-{launch}", LONGEST_PREFIX)


def service_account(job: str) -> str:
    """The service account of a job's drivers, and its Role and RoleBinding. The chart's admission policies
    know drivers by it."""
    return fitted(f"flamestream-{job}", "-driver")


def service(job: str) -> str:
    """The headless Service of all pods of the job."""
    return fitted(job, "-pods")


def token(job: str, run: int) -> str:
    """The Secret of one run."""
    return fitted(job, f"-token-{run}")


def budget(job: str) -> str:
    """The PodDisruptionBudget of the workers."""
    return fitted(job, "-workers")


def network_policy(job: str) -> str:
    """Who may connect to the job's pods."""
    return fitted(job, "-clients")


def trial(job: str, launch: int) -> str:
    """The worker's pod that is tried and never made."""
    return fitted(job, f"-trial-{launch}")


def preflight(job: str, code: str, run: int, generation: int) -> str:
    """The trial of one code beside, or before, one run, as one generation of the spec asks for it."""
    return fitted(job, f"-preflight-{code[:10]}-{run}-{generation}")


def audit(drill: str) -> str:
    """The pod of a drill's audit."""
    return fitted(drill, "-audit")


def trace(job: str, look: str) -> str:
    """The pod that traces an item, for one look."""
    return fitted(job, f"-trace-{look}")


def scheduled(job: str, second: int) -> str:
    """A savepoint by the clock; names sort by time."""
    return fitted(job, f"-at-{second}")
