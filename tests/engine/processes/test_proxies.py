"""Variables that name a proxy: which hosts are exempt, and what messages show of them. Pure Python."""

import pytest

from mtf_imaging.engine.processes import proxies

PROXY = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, "a,::1"),
        ({"no_proxy": "b, .c ,"}, "b,.c,a,::1"),
        ({"no_grpc_proxy": "b", "no_proxy": "c"}, "b,a,::1"),  # gRPC ignores no_proxy here
        ({"no_grpc_proxy": "", "no_proxy": "c"}, "a,::1"),
        ({"no_grpc_proxy": "::1,b"}, "::1,b,a"),
    ],
)
def test_hosts_are_exempt_in_addition_to_others(before, after):
    environ = {**before, "http_proxy": PROXY}
    for _ in range(2):
        proxies.bypass(["a", "::1"], environ)
        assert environ == {**before, "http_proxy": PROXY, "no_grpc_proxy": after}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (PROXY, f"http_proxy={PROXY}"),
        ("proxy.example.org:3128/", "http_proxy=proxy.example.org:3128"),
        ("http://[fe80::1]:3128", "http_proxy=http://[fe80::1]:3128"),
        ("http://user:secret@proxy:1", "http_proxy=http://proxy:1"),
        ("user:secret@proxy:1", "http_proxy=proxy:1"),
        ("http://user:sec://ret@proxy:1", "http_proxy"),
        ("http://user:sec/ret@proxy:1", "http_proxy"),
        ("http://user:sec@ret@proxy:1", "http_proxy"),
        ("http://proxy:1/?password=secret", "http_proxy"),
        ("secret text", "http_proxy"),
    ],
)
def test_messages_show_variables_without_passwords(value, shown):
    expected = f" {shown} is set in this process, but it connects to other processes without a proxy."
    assert proxies.note({"http_proxy": value}) == expected


def test_only_variables_that_name_a_proxy_are_shown():
    assert proxies.note({"http_proxy": " ", "grpc_proxy": "", "no_proxy": "a", "HTTPS_PROXY": PROXY}) == ""
    text = proxies.note({"http_proxy": "a", "https_proxy": "b"})
    assert text.startswith(" https_proxy=b and http_proxy=a are set in this process, ")


def test_a_proxy_for_certain_addresses_is_shown():
    environ = {"GRPC_ADDRESS_HTTP_PROXY": "user:secret@proxy:1"}
    assert proxies.note(environ) == ""
    environ["GRPC_ADDRESS_HTTP_PROXY_ENABLED_ADDRESSES"] = "10.0.0.0/8"
    assert proxies.note(environ) == (
        " GRPC_ADDRESS_HTTP_PROXY is set, so this process connects to the addresses in "
        "GRPC_ADDRESS_HTTP_PROXY_ENABLED_ADDRESSES through a proxy."
    )
