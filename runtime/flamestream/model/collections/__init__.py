"""Persistent collections: immutable values that grow at O(change), public as fs.Vector, fs.Map and fs.Set.

Every operation that changes something returns a new value that shares its structure with the old one. Both
stay valid, so a late item can be combined into an older accumulator, and a snapshot can be encoded while the
stream goes on. Elements are payloads, checked when they are put in, so a collection is a payload itself
without being walked.

Equality is that of payloads: the same type and equal canonical encodings, so Vector([1]) != Vector([True]).
Iterating over a Map or Set gives the order of the encoded keys, which does not depend on how it was built.
"""

from flamestream.model.collections.map import Map
from flamestream.model.collections.set import Set
from flamestream.model.collections.vector import Vector

__all__ = ["Map", "Set", "Vector"]
