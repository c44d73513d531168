"""Which addresses a person may be sent on to after signing in: paths of this site, and nothing else."""

from urllib.parse import quote

_LONGEST = 2000
# Pages of the sign-in itself: coming back to them would go round in a circle, or straight out again.
_NOT_BACK_TO = ("/sign-in", "/sign-out", "/signed-out", "/auth/", "/local-provider/")


def local_path(candidate: str | None) -> str:
    """`candidate` if a browser can only understand it as a path of this site, else ``/``.

    Browsers drop tabs and line breaks inside an address, read ``\\`` as ``/``, and take ``//host`` for another site;
    so anything with control characters, spaces or backslashes is refused, and so is ``//`` anywhere before the query.
    Characters outside ASCII come back percent-encoded.
    """
    if not candidate or len(candidate) > _LONGEST or not candidate.startswith("/"):
        return "/"
    if any(char <= " " or char in "\\\x7f" or "\ud800" <= char <= "\udfff" for char in candidate):
        return "/"
    path = candidate.partition("?")[0].partition("#")[0]
    if "//" in path or path.startswith(_NOT_BACK_TO):
        return "/"
    return quote(candidate, safe="/?#&=%:;,+!$'()*@~[]-._")
