"""`python -m flamestream_operator`: the operator's process. docs/operations/operator.md.

Does not: return before it is told to end; a lost Lease ends the process from within (kube/lease.py).
"""

import sys

from flamestream.job.exit_codes import code_of
from flamestream.model.errors import FlameStreamError
from flamestream_operator.operator import main

if __name__ == "__main__":
    try:
        sys.exit(main())
    except FlameStreamError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(code_of(error))
