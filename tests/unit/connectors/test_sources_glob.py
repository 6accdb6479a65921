"""Globs match what the regular expression of the same meaning matches, in as many steps as the name has
characters."""

import re
from random import Random

import pytest

from flamestream.connectors.files.glob import REMEMBERED, Glob
from flamestream.connectors.files.s3 import S3Files
from flamestream.connectors.files.spec import FilesSpec
from flamestream.connectors.sources import describe
from flamestream.model.errors import ManifestError

PARTS = {
    "**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]", "a": "a", "b": "b", "/": "/", ".": r"\.",
    "[ab]": "[ab]", "[!a]": "[^a]",
}  # fmt: skip


@pytest.mark.parametrize("seed", range(300))
def test_a_name_matches_if_the_regular_expression_says_so(seed: int) -> None:
    rng = Random(seed)
    tokens = rng.choices(list(PARTS), k=rng.randrange(1, 7))
    pattern = "".join(tokens)
    again = re.findall(r"\*\*/|\*\*|\*|\?|\[!?[^\]/]+\]|.", pattern)  # what neighbours make together
    expected = re.compile("".join(PARTS[token] for token in again), re.DOTALL)
    glob = Glob(pattern)
    for _ in range(200):
        name = "".join(rng.choices("aab/.", k=rng.randrange(9)))
        assert glob.matches(name) == (expected.fullmatch(name) is not None), (pattern, name)


@pytest.mark.parametrize(
    "pattern", ["**a" * 30 + "b", "*a" * 30 + "b", "**/a*" * 20 + "b", "?**" * 40 + "b", "[ab]**" * 30 + "c"]
)
def test_a_name_that_a_producer_chose_takes_a_step_a_character(pattern: str) -> None:
    """With a regular expression such a name takes longer than anybody waits, and this test does not come
    back."""
    glob = Glob(pattern)
    assert not glob.matches("a" * 10_000)
    assert not glob.matches("a/" * 5_000)
    assert len(glob._steps) < 500


def test_what_is_remembered_is_bounded() -> None:
    glob = Glob("**é")
    assert not glob.matches("".join(map(chr, range(0x1000, 0x1000 + 3 * REMEMBERED))))
    assert len(glob._steps) <= REMEMBERED


@pytest.mark.parametrize(
    ("pattern", "said"), [("a[z-a]", "no class of characters"), ("*" * 1025, "at most 1024 characters")]
)
def test_a_pattern_that_is_none_is_an_error_of_the_manifest(pattern: str, said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        describe({"files": {"path": "x", "pattern": pattern}}, "spec.sources.docs")


def test_s3_has_the_same_globs() -> None:
    assert S3Files([], "**a" * 30 + "b")._pattern.matches("a" * 5_000) is False
    assert FilesSpec(path="s3://bucket/x", pattern="**/*.py").in_s3
