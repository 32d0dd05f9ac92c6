"""Addresses of processes. Pure Python."""

import pytest

from mtf_imaging.engine.processes.addresses import Address, parse_addresses
from mtf_imaging.errors import ConfigError


def test_addresses_are_parsed_in_order():
    assert parse_addresses([]) == ()
    assert parse_addresses(["b.example:2222", " 10.0.0.3:1", "[fe80::1%eth0]:65535"]) == (
        Address("b.example", 2222),
        Address("10.0.0.3", 1),
        Address("fe80::1%eth0", 65535),
    )


@pytest.mark.parametrize("words", [["host0:2222", "10.0.0.3:1"], ["[::1]:2222"], ["localhost:1", "127.0.0.2:1"]])
def test_formatting_parsed_addresses_returns_the_words(words):
    assert list(map(str, parse_addresses(words))) == words


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["host"], "'host' is not host:port. Fix: write 'host:2222'."),
        (["grpc://host:2/"], "'grpc://host:2/' is more than host:port. Fix: write 'host:2'."),
        (["host:a"], "'host:a' is not host:port."),
        (["fe80::1:2222"], "'fe80::1:2222' is not host:port."),
        (["a,b:1"], "'a,b:1' is not host:port."),
        ([""], "'' is not host:port."),
        (
            ["a:0", "b:65536"],
            "'a:0': the port must be 1 to 65535, not 0. 'b:65536': the port must be 1 to 65535, not 65536.",
        ),
        (["a:1", "b:1", "a:1"], "'a:1' appears more than once. Fix: list each process once."),
        (
            ["127.0.0.1:1", "a:1", "b"],
            "'b' is not host:port. Fix: write 'b:2222'. '127.0.0.1' is a different host on each host. Fix: use a name "
            "or IP address that all hosts know.",
        ),
    ],
)
def test_one_error_lists_all_invalid_addresses(words, text):
    with pytest.raises(ConfigError) as error:
        parse_addresses(words)
    assert str(error.value) == text
