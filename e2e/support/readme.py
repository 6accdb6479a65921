"""README's job, and a client that reads its output while it grows: a pod that follows the files sink, and says when it
has seen how many results of which code.

Results of the changed function are told by their count, which is below 0. Each look that has found something is a
line in the pod's log. It says when the oldest record that these results descend from entered the job, by the results'
times, and when a log of the sink was written last: where a pause was, before the entry, in the job or behind it.

Does not: judge a result (the audit does).
"""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from e2e.support.folders import SHARED, FolderJob
from e2e.support.job import ROOT, restricted_pod
from e2e.support.kube import Object, condition_of, kubectl, until

MANIFEST = (ROOT / "examples" / "cluster" / "inverted_index.yaml").read_text()

CHANGED = ("len(postings))", "-len(postings))")
"""The edit of examples/inverted_index.py whose results are told."""
_READER = """
import json, sys, time
from pathlib import Path
sys.path.insert(0, "/opt/flamestream/app")
import inverted_index
from flamestream.fenced.tail import Cursor, Tail
from flamestream.model.meta import time_of_meta
from flamestream.model.time import Time, timestamp_of
folder = Path(sys.argv[1])
tail = Tail(folder, Cursor())
tail.to_the_end()
while True:
    seen = {False: [], True: []}
    for given in tail.next(10_000):
        seen[given.payload.documents < 0].append(time_of_meta(given.meta))
    if any(seen.values()):
        told = {"at": time.time(), "before": len(seen[False]), "since": len(seen[True])}
        entered = timestamp_of(Time(min(map(min, filter(None, seen.values()))))) / 1e6
        written = max(log.stat().st_mtime for log in folder.glob("*.log"))
        told |= {"entered": entered, "written": written}
        print(json.dumps(told | {"last": max(seen[False], default=0), "first": min(seen[True], default=0)}), flush=True)
    else:
        time.sleep(0.002)
"""


class ReadmeJob(FolderJob):
    """The job of README, with the volume, the places and the keys of this cluster."""

    def spec(self) -> Object:
        its = next(each for each in yaml.safe_load_all(MANIFEST) if each["kind"] == "FlameStreamJob")["spec"]
        here = super().spec()
        places = ("application", "sources", "sinks", "checkpoint", "pods")
        return {**its, **{name: here[name] for name in places}}

    def edit(self, folder: Path, code: str) -> None:
        """As a user does: the file, and `kubectl apply`."""
        file = folder / "application.json"
        file.write_text(json.dumps(self.application(code)))
        where = ("--namespace", self.kube.namespace, "-f", str(file))
        kubectl("apply", "--server-side", "--force-conflicts", *where)

    def wait_whole(self, launch: int) -> None:
        """Until all workers of this launch are connected, standbys too."""
        workers, selector = (
            self.spec()["workers"],
            f"{self.selector('worker')},flamestream.dev/launch={launch}",
        )

        def whole() -> bool:
            pods = self.kube.list("Pod", selector)
            ready = [pod for pod in pods if condition_of(pod, "Ready").get("status") == "True"]
            return len(ready) == int(workers["replicas"] + workers["standby"])

        until(f"launch {launch} is whole", whole, 120)


@dataclass(frozen=True, slots=True)
class Pause:
    """A time without a result. Moments are milliseconds behind its beginning, which is 0 where they were before."""

    at_s: float
    """When it began, in seconds behind the time that was asked for."""
    ms: float
    entered_ms: float
    """When the oldest record of the first results behind it entered the job."""
    written_ms: float
    """When the sink's files were written last before these were seen; what is left is the client's."""


@dataclass(frozen=True)
class Seen:
    """All that the client has said so far."""

    looks: list[Any]

    @property
    def last_before(self) -> int:
        """The time of the newest result of the code before; 0: it has seen none."""
        return max(int(look["last"]) for look in self.looks)

    @property
    def first_since(self) -> int:
        """The time of the oldest result of the changed code; 0: it has seen none."""
        return min((int(look["first"]) for look in self.looks if look["since"]), default=0)

    @property
    def turned(self) -> float:
        """When it has seen the first result of the changed code, in seconds since 1970."""
        return float(next(look["at"] for look in self.looks if look["since"]))

    def pauses(self, since: float, until: float, longest: int = 3) -> list[Pause]:
        """The longest times without a result in between, the longest first."""
        looks = [look for look in self.looks if since <= look["at"] <= until]
        ends = {"at": until, "entered": until, "written": until}
        found = pairwise([{"at": since}, *looks, ends])
        behind = sorted(found, key=lambda pair: pair[0]["at"] - pair[1]["at"])
        return [_pause(before["at"], look, since) for before, look in behind[:longest]]

    def pause(self, since: float, until: float) -> float:
        """The longest time without a result in between, in milliseconds."""
        return self.pauses(since, until)[0].ms


def _pause(began: float, look: Any, since: float) -> Pause:
    def behind(moment: float) -> float:
        return round(max(0.0, moment - began) * 1e3, 1)

    return Pause(round(began - since, 2), *(behind(look[name]) for name in ("at", "entered", "written")))


@dataclass(frozen=True)
class Reader:
    """The pod that reads the output of one job."""

    job: FolderJob

    @property
    def name(self) -> str:
        return f"{self.job.name}-reader"

    def start(self) -> None:
        """From now on: who has all of it to catch up with would be what is measured."""
        mounts = {
            "shared": (SHARED, "/shared"),
            "app": ({"configMap": {"name": f"{self.job.name}-app"}}, "/opt/flamestream/app"),
        }
        folder = f"{self.job.folder(self.job.name)}/index"
        command = ("python3", "-c", _READER, folder)
        self.job.kube.apply(restricted_pod(self.name, *command, mounts=mounts, cpu="100m"))
        self.job.kube.wait_condition("Pod", self.name, "Ready", 60)

    def seen(self) -> Seen:
        """So far."""
        return Seen([json.loads(line) for line in self.job.kube.logs(self.name).splitlines()])

    def delete(self) -> None:
        self.job.kube.delete("Pod", self.name, grace=0)
