"""`python -m support.api_server`: build it now, and helm, so that no test waits for that. A line each says
where it is, or why not."""

import sys

import pytest

from support import api_server, helm

for binary in (api_server.binary, helm.binary):
    try:
        sys.stdout.write(f"{binary()}\n")
    except pytest.skip.Exception as reason:
        sys.stdout.write(f"{reason}\n")
