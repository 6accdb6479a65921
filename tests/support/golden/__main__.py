"""Writes today's version of each format that has no file yet; says where today's writer gives other bytes
than the version that is there, and writes nothing there."""

import sys

from support.golden.table import FORMATS


def main() -> int:
    refused = 0
    for each in FORMATS:
        try:
            print(f"{each.name}: version {each.newest} {each.make()}")
        except FileExistsError as error:
            refused += 1
            print(error, file=sys.stderr)
    return min(refused, 1)


if __name__ == "__main__":
    sys.exit(main())
