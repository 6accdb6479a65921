"""Sources in S3, without a server."""

import pytest

from flamestream.connectors.files.places import Found
from flamestream.connectors.files.s3 import S3Files, S3Place


@pytest.mark.parametrize(
    ("path", "number"), [("s3://b/a/x", 0), ("s3://b/ab/x", 1), ("s3://c/one", 2), ("s3://d/x", 3)]
)
def test_an_object_is_asked_of_the_place_that_lists_it(path: str, number: int) -> None:
    urls = ("s3://b/a?endpoint=http://one", "s3://b/ab?endpoint=http://two", "s3://c/one", "s3://d")
    places = [S3Place(url, "", "paths") for url in urls]
    assert S3Files(places, "**")._place_of(Found("x", path, 1, "v")) is places[number]
