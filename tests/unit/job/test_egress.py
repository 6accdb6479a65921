"""What an entry of egress allows, and which entries are none."""

import pytest

from flamestream.job.egress import MOST_FOUND, Allowed


@pytest.mark.parametrize(
    ("entry", "host", "port", "allowed"),
    [
        ("api.example.com", "API.example.com.", 80, True),
        ("api.example.com.", "api.example.com", 80, True),
        ("api.example.com:443", "api.example.com", 443, True),
        ("api.example.com:443", "api.example.com", 80, False),
        ("*.example.com", "a.b.example.com", 1, True),
        ("*.example.com", "example.com", 1, False),
        ("*.example.com", "badexample.com", 1, False),
        ("10.0.0.0/8", "10.1.2.3", 5432, True),
        ("10.0.0.0/8", "::ffff:10.1.2.3", 5432, True),
        ("10.1.2.3:5432", "10.1.2.3", 5432, True),
        ("10.1.2.3:5432", "10.1.2.3", 22, False),
        ("2001:db8::1", "2001:db8::1", 1, True),
        ("2001:db8::/32", "2001:db8::1%eth0", 1, True),
        ("[2001:db8::1]:443", "2001:db8::1", 443, True),
        ("[2001:db8::/32]:443", "2001:db8::7", 80, False),
        ("10.0.0.0/8", "metadata.internal", 80, False),
        ("my_service", "my_service", 80, True),
    ],
)
def test_an_entry_allows_what_it_names(entry: str, host: str, port: int, allowed: bool) -> None:
    assert Allowed([entry]).asks(host, port) is allowed


@pytest.mark.parametrize(
    "entry",
    [
        "a b",
        "",
        ":80",
        "a:0",
        "a:65536",
        "10.1.2.3/8",
        "10.0.0.300",
        "a.*.com",
        "a[bc].example",
        "[::1",
        "http://a",
    ],
)
def test_what_is_no_entry_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="is none of HOST, HOST:PORT"):
        Allowed([entry])


def test_an_address_is_known_by_the_name_that_was_allowed() -> None:
    allowed = Allowed(["a.example:80"])
    allowed.found("a.example", 80, ["::ffff:192.0.2.1"])
    allowed.found("b.example", 80, ["192.0.2.2"])
    assert [allowed.reaches(f"192.0.2.{last}", 80) for last in (1, 2)] == [True, False]


def test_as_many_addresses_are_known_as_are_bounded() -> None:
    allowed = Allowed(["a.example"])
    for number in range(MOST_FOUND + 1):
        allowed.found("a.example", 80, [f"address {number}"])
    assert [allowed.reaches(f"address {number}", 80) for number in (0, 1, MOST_FOUND)] == [False, True, True]
