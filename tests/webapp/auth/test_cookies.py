"""The cookies as browsers get them."""

import pytest
from starlette.requests import Request
from starlette.responses import Response

from tests.webapp.asking import http_scope
from webapp.auth.cookies import Cookie, make_cookie


def written(cookie: Cookie, *, erase: bool = False) -> list[str]:
    response = Response()
    if erase:
        cookie.erase(response)
    else:
        cookie.write(response, "opaque")
    return [part.strip() for part in response.headers["set-cookie"].split(";")]


@pytest.mark.parametrize("erase", [False, True])
def test_over_https_the_cookie_is_bound_to_the_host(erase: bool) -> None:
    """`__Host-` with Secure, Path=/ and no Domain, also when it is erased: browsers refuse it otherwise."""
    parts = written(make_cookie("https://memory.example.org", "", 60), erase=erase)
    assert parts[0].startswith("__Host-remembrancer=")
    assert {"HttpOnly", "Secure", "Path=/", "SameSite=lax"} <= set(parts)
    assert not any(part.startswith("Domain") for part in parts)


def test_on_loopback_the_name_is_plain_and_tells_ports_apart() -> None:
    """Cookies are shared between ports; two instances on one computer keep theirs apart."""
    first, second = (make_cookie(f"http://127.0.0.1:{port}", "", 60) for port in (8000, 8001))
    assert written(first)[0] == "remembrancer-8000=opaque"
    assert "Secure" not in written(first)
    assert first.name != second.name


@pytest.mark.parametrize(
    ("header", "value"), [("remembrancer-80=x", "x"), ("remembrancer-80=", None), ("other=x", None)]
)
def test_an_empty_cookie_is_none(header: str, value: str | None) -> None:
    """Absent and empty mean the same."""
    cookie = make_cookie("http://localhost", "", 60)
    assert cookie.read(Request(http_scope(headers={"Cookie": header}))) == value
