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


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "100.100.100.200",
        "127.0.0.1",
        "::1",
        "0.0.0.0",
        "::",
    ],
)
def test_a_name_leads_neither_to_this_machine_nor_to_its_secrets(address: str) -> None:
    allowed = Allowed(["a.example"])
    allowed.found("a.example", 80, [address])
    assert not allowed.reaches(address, 80)


def test_as_an_address_an_entry_names_it() -> None:
    allowed = Allowed(["a.example", "169.254.169.254"])
    allowed.found("a.example", 80, ["169.254.169.254"])
    assert allowed.reaches("169.254.169.254", 80)


@pytest.mark.parametrize("name", ["localhost", "shop.localhost"])
def test_localhost_is_this_machine(name: str) -> None:
    allowed = Allowed([name])
    allowed.found(name, 80, ["127.0.0.1", "::1"])
    assert allowed.reaches("127.0.0.1", 80) and allowed.reaches("::1", 80)


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254\0.example.com",  # the C library reads up to the NUL
        "10.0.0.1\n.example.com",
        "10.0.0.1 .example.com",
        "a/b.example.com",
        "fe80::1%.example.com",
    ],
)
def test_what_is_no_name_is_not_looked_up(host: str) -> None:
    assert not Allowed(["*.example.com"]).asks(host, 80)


def test_a_name_of_other_letters_is_one() -> None:
    assert Allowed(["*.example.com"]).asks("b\u00fccher.example.com", 80)


def test_as_many_addresses_are_known_as_are_bounded() -> None:
    allowed = Allowed(["a.example"])
    for number in range(MOST_FOUND + 1):
        allowed.found("a.example", 80, [f"address {number}"])
    assert [allowed.reaches(f"address {number}", 80) for number in (0, 1, MOST_FOUND)] == [False, True, True]
