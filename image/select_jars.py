"""Removes every jar from PySpark's folder that jars.txt does not name. A name that matches nothing is an
error: Spark was changed."""

import re
import sys
from pathlib import Path


def chosen(list_file: Path, folder: Path) -> dict[Path, str]:
    """The jars that are named, with the group that is said beside a name; the versions are Spark's."""
    lines = [
        line.split()
        for line in list_file.read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]
    groups = {name: "".join(group) for name, *group in lines}
    jars = {
        jar: re.sub(r"-\d[^-]*(-\d+)?(\.Final)?(-core)?(-linux-\w+)?\.jar$", "", jar.name)
        for jar in sorted(folder.glob("*.jar"))
    }
    if missing := sorted(set(groups) - set(jars.values())):
        sys.exit(f"{list_file}: PySpark in {folder} has no jar for {', '.join(missing)}")
    return {jar: groups[name] for jar, name in jars.items() if name in groups}


def main(list_file: Path, folder: Path) -> None:
    """Keep what is named."""
    kept = chosen(list_file, folder)
    for jar in folder.glob("*.jar"):
        if jar not in kept:
            jar.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
