"""How the text of a setting becomes a value. Each function returns the value or raises ValueError with words that
finish the sentence "REMEMBRANCER_X …"; none of them repeats the text it was given, which may be a secret.
"""

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from webapp.auth.operators import CHANGEABLE, SUBJECT, OperatorRule

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})
_SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_MIN_KEY_BYTES = 32
_CLAIM_RULE = "claim:"
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback_host(host: str | None) -> bool:
    """Whether `host`, a name or an address without a port, can only be this computer."""
    if host is None:
        return False
    if host.lower() in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def text(value: str) -> str:
    return value


def flag(value: str) -> bool:
    lowered = value.lower()
    if lowered not in _TRUE | _FALSE:
        raise ValueError("must be true or false")
    return lowered in _TRUE


def whole(lowest: int, highest: int) -> Callable[[str], int]:
    """Reads a whole number between `lowest` and `highest`, both included."""

    def parse(value: str) -> int:
        words = f"must be a whole number from {lowest:,} to {highest:,}"
        if not (value.isascii() and value.isdigit()):
            raise ValueError(words)
        number = int(value[:20])
        if not lowest <= number <= highest:
            raise ValueError(words)
        return number

    return parse


def choice(*allowed: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value.lower() not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return value.lower()

    return parse


def words(value: str) -> tuple[str, ...]:
    """A list separated by commas; empty places are left out."""
    return tuple(part.strip() for part in value.split(",") if part.strip())


def operators(value: str) -> tuple[OperatorRule, ...]:
    """Who operates this deployment: subjects, and claims with the value they must have."""
    return tuple(_operator_rule(part) for part in words(value))


def _operator_rule(part: str) -> OperatorRule:
    if not part.startswith(_CLAIM_RULE):
        return OperatorRule(SUBJECT, part)
    name, is_given, wanted = (piece.strip() for piece in part.removeprefix(_CLAIM_RULE).partition("="))
    if not (name and is_given and wanted):
        raise ValueError("must name a claim as claim:NAME=VALUE")
    if name in CHANGEABLE:
        raise ValueError(f"must not ask for the claim {name}: people can change theirs. Name a subject or a role")
    return OperatorRule(name, wanted)


def scopes(value: str) -> tuple[str, ...]:
    found = tuple(value.split())
    if "openid" not in found:
        raise ValueError("must contain openid")
    return found


def folder(value: str) -> Path:
    return Path(value).expanduser().absolute()


def optional_folder(value: str) -> Path | None:
    return folder(value) if value else None


def slug(value: str) -> str:
    if not _SLUG.fullmatch(value):
        raise ValueError("must be 1 to 64 lower-case letters, digits and inner hyphens")
    return value


def secret_key(value: str) -> bytes:
    if value and len(value.encode()) < _MIN_KEY_BYTES:
        raise ValueError(f"must be at least {_MIN_KEY_BYTES} bytes long")
    return value.encode()


def database_url(value: str) -> str:
    if value and _parts(value).scheme not in ("postgresql", "postgres"):
        raise ValueError("must begin with postgresql://")
    return value


def web_url(value: str) -> str:
    """An http(s) address without query or fragment; kept as it is, because an issuer is compared letter by letter."""
    if not value:
        return value
    parts = _parts(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address such as https://example.org")
    if parts.query or parts.fragment or parts.username or parts.password:
        raise ValueError("must be an address without a user, a query or a fragment")
    _check_port(value)
    return value


def guarded_url(value: str) -> str:
    """A web address that is https, or stays on this computer."""
    web_url(value)
    if value and urlsplit(value).scheme != "https" and not is_loopback_host(urlsplit(value).hostname):
        raise ValueError("must be an https address (plain http is only for this computer)")
    return value


def public_url(value: str) -> str:
    """The origin that a browser sees: scheme, host and port in lower case, no path, no default port."""
    guarded_url(value)
    if not value:
        return value
    parts = urlsplit(value)
    if parts.path not in ("", "/"):
        raise ValueError("must be an address without a path")
    return origin_of(value)


def origin_of(url: str) -> str:
    """The origin of `url` as browsers write it in an Origin header."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}.get(parts.scheme)
    port = "" if parts.port in (None, default) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def shown_url(url: str) -> str:
    """A web address for a terminal: its origin, and a path that everybody uses; gateways put keys into other paths."""
    path = urlsplit(url).path.rstrip("/")
    return origin_of(url) + (path if path in ("", "/v1") else "/…")


def networks(value: str) -> tuple[IPNetwork, ...]:
    try:
        return tuple(ipaddress.ip_network(part, strict=False) for part in words(value))
    except ValueError:
        raise ValueError("must be a comma list of addresses or networks, such as 10.0.0.0/8") from None


def _parts(value: str) -> SplitResult:
    """The words of `urlsplit` repeat what stands in the address, a password too: these are our own."""
    try:
        parts = urlsplit(value)
    except ValueError:
        raise ValueError("must be an address whose host and port can be read") from None
    if not value.isprintable():
        raise ValueError("must be an address without control characters")
    return parts


def _check_port(value: str) -> None:
    try:
        urlsplit(value).port  # noqa: B018 - reading it is the check
    except ValueError:
        raise ValueError("must be an address with a port from 0 to 65535") from None
