"""How long a start takes: from `kubectl apply` to Ready and to the first output, beside Spark's usual way in
the same minutes.

    python -m e2e.support.start --times 3 [--demo demo.yaml]        # KUBECONFIG, and the chart installed (e2e/run
                                                            installs it)

The demo is a Job named spark-demo that starts PySpark in client mode with its own settings and prints "first
job after" when its executors have run something. Each round prints one line; both are measured from the
moment that `kubectl apply` is called.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from e2e.support.installation import RELEASE, SYSTEM, Installation, first_node, install
from e2e.support.kube import Kube, kubectl, until
from e2e.support.stream import Stream


def demo(file: Path) -> float:
    """Seconds to the demo's first Python job."""
    kubectl("delete", "--filename", str(file), "--ignore-not-found", "--wait=true")
    began = time.monotonic()
    kubectl("apply", "--filename", str(file))
    until("the demo's first job", lambda: "first job after" in _said(Kube("default")), 300, 0.2)
    taken = time.monotonic() - began
    kubectl("delete", "--filename", str(file), "--wait=true")
    return taken


def _said(kube: Kube) -> str:
    """By the driver, once it runs."""
    pods = [pod for pod in kube.list("Pod", "job-name=spark-demo") if pod["status"]["phase"] != "Pending"]
    return kube.logs(pods[0]["metadata"]["name"]) if pods else ""


def ours(stream: Stream) -> tuple[float, float]:
    """Seconds to Ready, and to the first delivery."""
    stream.prepare()
    stream.send(50, 1_000_000)
    asked, began = stream.state()["now"], time.monotonic()
    stream.apply()
    stream.wait_ready(300)
    ready = time.monotonic() - began
    first = until("the first delivery", lambda: stream.state()["first"], 120, 0.2)
    stream.delete()
    return ready, float(first) - float(asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--demo", type=Path)
    parser.add_argument("--namespace", default="e2e-start")
    parser.add_argument("--high-availability", action="store_true")
    parser.add_argument(
        "--installed", action="store_true", help="the chart is there already, for this namespace"
    )
    options = parser.parse_args()
    kube = Kube(options.namespace)
    kube.make_namespace()
    if options.installed:
        there = Installation(
            Kube(SYSTEM),
            f"s3://flamestream/start?endpoint=http://{RELEASE}-s3.{SYSTEM}.svc:7070",
            first_node(),
        )
    else:
        there = install(options.namespace)
    for number in range(options.times):
        name = f"start-{int(time.time())}-{number}"
        stream = Stream(kube, there, name, standby=0, high_availability=options.high_availability)
        row = {"demo_s": round(demo(options.demo), 1)} if options.demo else {}
        ready, first = ours(stream)
        row |= {
            "ready_s": round(ready, 1),
            "first_output_s": round(first, 1),
            "load": round(os.getloadavg()[0], 1),
        }
        sys.stdout.write(json.dumps(row) + "\n")
        if "E2E_REPORT" in os.environ:
            what = "start, two applications" if options.high_availability else "start"
            with Path(os.environ["E2E_REPORT"]).open("a") as file:
                file.write(json.dumps({"what": what, **row}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
