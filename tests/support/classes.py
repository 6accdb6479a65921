"""Payload classes that are defined while a test runs, as edited code defines them: one after another under one
name."""

from collections.abc import Mapping
from typing import Any

import flamestream as fs

NOTHING: Mapping[str, Any] = {}


def defined(name: str, fields: Mapping[str, Any], defaults: Mapping[str, Any] = NOTHING) -> Any:
    """The class of this module with these annotations, from now on instead of the one before."""
    return fs.event(type(name, (), {"__module__": __name__, "__annotations__": dict(fields), **defaults}))
