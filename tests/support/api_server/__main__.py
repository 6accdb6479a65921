"""`python -m support.api_server`: build it now, so that no test has to wait for that. One line says where it is, or why it is not."""

import sys

import pytest

from support.api_server import binary

try:
    sys.stdout.write(f"{binary()}\n")
except pytest.skip.Exception as reason:
    sys.stdout.write(f"{reason}\n")
