"""Where a person may be sent on to after signing in."""

from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from webapp.local_path import local_path

ORIGIN = "https://memory.example.org"


@pytest.mark.parametrize(
    "path", ["/", "/chats", "/chats/cht_4fj2?edit=1&x=%2F", "/memory?agent=a#sheet", "/search?q=a//b", "/a%2F%2Fb"]
)
def test_a_path_of_this_site_is_kept(path: str) -> None:
    """Ordinary addresses come back as they are."""
    assert local_path(path) == path


@pytest.mark.parametrize(
    "hostile",
    [
        None,
        "",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        "\t//evil.example",
        " //evil.example",
        "https://evil.example",
        "https:evil.example",
        "HTTPS:/evil.example",
        "javascript:alert(1)",
        "evil.example",
        "@evil.example",
        "/..//evil.example",
        "/a\r\nSet-Cookie: x=1",
        "/\x7f/evil.example",
        "/\ud800",
        "/" + "a" * 2000,
        "/sign-in?next=/sign-in",
        "/sign-out",
        "/signed-out",
        "/auth/start",
        "/local-provider/authorize",
    ],
)
def test_anything_else_becomes_the_start_page(hostile: str | None) -> None:
    """Other sites, addresses a browser might read as other sites, and the pages of the sign-in itself."""
    assert local_path(hostile) == "/"


def browser_origin(location: str) -> str:
    """The origin a browser ends at: it drops tabs and line breaks, trims, and reads a backslash as a slash."""
    seen = "".join(char for char in location if char not in "\t\r\n").strip(" \0").replace("\\", "/")
    parts = urlsplit(urljoin(f"{ORIGIN}/auth/callback", seen))
    return f"{parts.scheme}://{parts.netloc}"


@given(st.text(alphabet=st.sampled_from("/\\:@?#.%2f\t\n\r ahtps•é"), max_size=30) | st.text(max_size=30))
@example("/\t/evil.example")
@example("/%5c%5cevil.example")
def test_a_browser_never_leaves_the_site(candidate: str) -> None:
    """Whatever is asked for, the browser stays at our origin."""
    assert browser_origin(local_path(candidate)) == ORIGIN


@given(st.text(max_size=50))
def test_the_answer_is_a_fixed_point_and_plain_ascii(candidate: str) -> None:
    """Judging twice changes nothing, and a header can carry the answer."""
    path = local_path(f"/{candidate}")
    assert path.isascii()
    assert local_path(path) == path
