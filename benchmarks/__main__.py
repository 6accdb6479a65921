"""`python benchmarks FIGURE [ARGUMENT...]`: runs a module of figures/, or the figure of a folder (nexmark, rtm).
`suite` (make bench) and `report` are those of harness/. `make bench BENCH_ARGS=nexmark` and `BENCH_ARGS=rtm`
are figures too, of other jobs than the suite's."""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# the servers that tests start are there
sys.path += [str(HERE / "jobs"), str(HERE.parent / "operator"), str(HERE.parent / "tests")]


def main() -> None:
    if sys.argv[1:2] == ["suite"] and sys.argv[2:3] in (["nexmark"], ["rtm"]):
        del sys.argv[1]
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    module = "harness.suite"
    if (HERE / "figures" / f"{name}.py").exists():
        module = f"figures.{name}"
    elif (HERE / name / "figure.py").exists():
        module = f"{name}.figure"
    elif name in ("suite", "report"):
        module = f"harness.{name}"
    if module != "harness.suite" or name == "suite":
        del sys.argv[1]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


main()
