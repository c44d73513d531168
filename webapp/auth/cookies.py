"""The two cookies: the session's, and the one that ties a sign-in to the browser that began it.

Over https their names begin with ``__Host-``, which browsers accept only as Secure, for the whole site and from this
host alone. On loopback http such names do not exist, and cookies are shared between ports; the port is in the name, so
that two instances on one computer do not sign each other out.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response


@dataclass(frozen=True, slots=True)
class Cookie:
    """One cookie of this site; opaque values only."""

    name: str
    secure: bool
    max_age_seconds: int

    def read(self, request: Request) -> str | None:
        return request.cookies.get(self.name) or None

    def write(self, response: Response, value: str) -> None:
        response.set_cookie(
            self.name, value, max_age=self.max_age_seconds, path="/", secure=self.secure, httponly=True, samesite="lax"
        )

    def erase(self, response: Response) -> None:
        response.delete_cookie(self.name, path="/", secure=self.secure, httponly=True, samesite="lax")


def make_cookie(public_url: str, suffix: str, max_age_seconds: int) -> Cookie:
    """The cookie ``remembrancer`` + `suffix` of the site at `public_url`."""
    parts = urlsplit(public_url)
    if parts.scheme == "https":
        return Cookie(f"__Host-remembrancer{suffix}", True, max_age_seconds)
    return Cookie(f"remembrancer-{parts.port or 80}{suffix}", False, max_age_seconds)
