"""A manifest is text of somebody's: whatever is in it, it costs no more than a manifest, and the error says
file and line."""

import pytest

from flamestream.job.located import MAX_CHARACTERS, parse
from flamestream.model.errors import ManifestError

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)
"""A billion of them, in 500 bytes."""
MERGED = "a: &a {x: 1}\n" + "".join(
    f"{after}: &{after} {{<<: [{', '.join([f'*{before}'] * 10)}]}}\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)
KEYS = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LAUGHS, r"job.yaml:\d+: .*more than 20000 values, with aliases \(\*name\) written out"),
        (MERGED, "more than 20000 values"),
        ("&a [*a]", "nests deeper than 20 levels"),
        ("[" * 100_000, "nests deeper than 20 levels"),
        ("- " * 100_000, "nests deeper than 20 levels"),
        ("{a: " * 100_000, "nests deeper than 20 levels"),
        ("{[a, b]: c}", r"job.yaml:1: a key of the document is no text"),
        (KEYS + "? *i\n: 1\n", "a key of the document is no text"),
        ("a: 2001-99-99", "a value cannot be read: month must be in 1..12"),
        ("a: " + "9" * 10_000, "a value cannot be read"),
        ("a: \x00", "this is not YAML"),
        ("x" * (MAX_CHARACTERS + 1), "more than 1048576 characters"),
    ],
    ids=[
        "laughs",
        "merged",
        "itself",
        "deep lists",
        "deep entries",
        "deep mappings",
        "list as key",
        "laughs as key",
        "date",
        "number",
        "control character",
        "long",
    ],
)
def test_what_would_cost_more_than_a_manifest_is_refused(text: str, said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        parse(text, "job.yaml")


def test_a_few_aliases_are_fine() -> None:
    document = parse("one: &it {a: 1}\ntwo: *it\nthree: {<<: *it, b: 2}\n", "job.yaml")
    assert document.value == {"one": {"a": 1}, "two": {"a": 1}, "three": {"a": 1, "b": 2}}
