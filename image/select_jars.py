"""Removes every jar from PySpark's folder that jars.txt does not name. A name that matches nothing is an error: Spark was changed."""

import re
import sys
from pathlib import Path


def main(list_file: Path, folder: Path) -> None:
    """Keep what is named; the versions are Spark's."""
    names = [line.strip() for line in list_file.read_text().splitlines() if line.strip() and not line.startswith("#")]
    jars = {jar: re.sub(r"-\d[^-]*(\.Final)?(-core)?\.jar$", "", jar.name) for jar in folder.glob("*.jar")}
    missing = sorted(set(names) - set(jars.values()))
    if missing:
        sys.exit(f"{list_file}: PySpark in {folder} has no jar for {', '.join(missing)}")
    for jar, name in jars.items():
        if name not in names:
            jar.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
