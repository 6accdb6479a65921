"""The objects that clients need to ask a job for its states: a Service that leads to the workers that take part, and
the Secret of a token without which nobody is answered.

Does not: make random numbers (the shell puts the token in), or say which worker takes part (jobs/effects.py).
"""

from flamestream.connectors.kit.spec import address_of
from flamestream.job.manifest_queries import Queries
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import ANSWERS, JOB, ROLE, Object, dependent


def build_query_service(job: Object, queries: Queries) -> Object:
    """The port of the workers that take part: a standby listens to nobody."""
    name, port = job["metadata"]["name"], address_of(queries.listen)[1]
    spec = {
        "selector": {JOB: name, ROLE: "worker", ANSWERS: "true"},
        "ports": [{"name": "queries", "protocol": "TCP", "port": port, "targetPort": port}],
    }
    return dependent("Service", job, names.queries(name), spec=spec)


def build_query_token(job: Object) -> Object:
    """The token of the job's own, the same in all its runs: clients have it mounted."""
    return dependent(
        "Secret",
        job,
        names.queries(job["metadata"]["name"]),
        type="Opaque",
        immutable=True,
        stringData={"token": ""},
    )
