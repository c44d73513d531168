"""What an ID token must prove before anybody is signed in, and what is read from it."""

import base64
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from webapp.auth.id_token import Expected, KeyUnknown, identity_from, read_id_token
from webapp.errors import IdentityInvalid

NOW = 1_800_000_000
EXPECTED = Expected(issuer="https://id.example.org", client_id="remembrancer", nonce="n-1")
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
PUBLISHED = KeySet.import_key_set(KeySet([RSA, EC]).as_dict(private=False))


def claims(**changes: Any) -> dict[str, Any]:
    """Good claims with `changes`; a change to None leaves the claim out."""
    good = {
        "iss": EXPECTED.issuer,
        "sub": "ada",
        "aud": EXPECTED.client_id,
        "nonce": EXPECTED.nonce,
        "iat": NOW,
        "exp": NOW + 300,
    }
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def sign(body: Mapping[str, Any], key: Any = EC, alg: str = "ES256", kid: str | None = "ec", **header: Any) -> str:
    protected = {"alg": alg, **header} | ({"kid": kid} if kid else {})
    return jwt.encode(protected, dict(body), key, algorithms=[alg])


def read(token: str, *, access_token: str | None = None) -> Mapping[str, Any]:
    return read_id_token(token, PUBLISHED, EXPECTED, access_token=access_token, now=lambda: NOW)


@pytest.mark.parametrize(("key", "alg", "kid"), [(EC, "ES256", "ec"), (RSA, "RS256", "rsa")])
def test_a_good_token_gives_its_claims(key: Any, alg: str, kid: str) -> None:
    """Both pinned algorithms are accepted."""
    assert read(sign(claims(), key, alg, kid))["sub"] == "ada"


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"nonce": "n-2"}, "invalid_claim:nonce"),
        ({"nonce": None}, "missing_claim:nonce"),
        ({"iss": "https://evil.example"}, "invalid_claim:iss"),
        ({"iss": "https://id.example.org/"}, "invalid_claim:iss"),
        ({"iss": ["https://id.example.org"]}, "invalid_claim:iss"),
        ({"aud": "somebody-else"}, "invalid_claim:aud"),
        ({"aud": "somebody-else", "azp": "remembrancer"}, "invalid_claim:aud"),
        ({"aud": ["remembrancer", "other"], "azp": "other"}, "invalid_claim:azp"),
        ({"aud": ["remembrancer", "other"]}, "missing_claim:azp"),
        ({"exp": NOW - 121}, "expired_token:exp"),
        ({"exp": "soon"}, "invalid_claim:exp"),
        ({"exp": None}, "missing_claim:exp"),
        ({"iat": NOW + 121}, "invalid_claim:iat"),
        ({"nbf": NOW + 121}, "invalid_claim:nbf"),
        ({"sub": None}, "missing_claim:sub"),
        ({"sub": 7}, "invalid_claim:sub"),
        ({"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}, "invalid_claim:at_hash"),
        ({"at_hash": {"not": "text"}}, "unreadable"),
    ],
)
def test_a_claim_that_does_not_hold_is_named(changes: dict[str, Any], check: str) -> None:
    """Each claim is judged, and the error says which one fell, without its value."""
    with pytest.raises(IdentityInvalid) as caught:
        read(sign(claims(**changes)), access_token="token")
    assert caught.value.check == check


@pytest.mark.parametrize("changes", [{"exp": NOW - 119}, {"iat": NOW + 119}, {"nbf": NOW + 119}])
def test_clocks_may_differ_by_two_minutes(changes: dict[str, Any]) -> None:
    """A provider whose clock is a little off is no attacker."""
    assert read(sign(claims(**changes)))["sub"] == "ada"


@pytest.mark.parametrize("aud", ["remembrancer", ["remembrancer"]])
def test_one_audience_may_come_as_a_list(aud: object) -> None:
    """Both spellings of a single audience mean the same."""
    assert read(sign(claims(aud=aud)))["sub"] == "ada"


def encode(part: object) -> str:
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unsigned() -> str:
    return f"{encode({'alg': 'none', 'typ': 'JWT'})}.{encode(claims())}."


def signed_with_the_public_key() -> str:
    """The classic confusion: HMAC, with the published key's text as its secret."""
    signed = f"{encode({'alg': 'HS256', 'kid': 'ec'})}.{encode(claims())}"
    return f"{signed}.{encode(hmac.digest(EC.as_pem(private=False), signed.encode(), 'sha256'))}"


def signed_with_the_client_secret() -> str:
    return sign(claims(), OctKey.import_key(b"the client's secret, 32 bytes long"), "HS256", None)


def signed_by_a_stranger() -> str:
    return sign(claims(), ECKey.generate_key("P-256", {"kid": "ec"}))


def tampered_with() -> str:
    head, _, signature = sign(claims()).split(".")
    return f"{head}.{encode(claims(sub='eve'))}.{signature}"


def another_algorithm_of_the_same_key() -> str:
    return sign(claims(), RSA, "PS256", "rsa")


def not_claims_at_all() -> str:
    return jws.serialize_compact({"alg": "ES256", "kid": "ec"}, b"[1, 2]", EC)


def a_key_of_another_kind() -> str:
    """ES256 by its header, RSA by its key."""
    return sign(claims(), EC, "ES256", "rsa")


@pytest.mark.parametrize(
    "forge",
    [
        unsigned,
        signed_with_the_public_key,
        signed_with_the_client_secret,
        signed_by_a_stranger,
        tampered_with,
        another_algorithm_of_the_same_key,
        not_claims_at_all,
        a_key_of_another_kind,
        lambda: "",
        lambda: "a.b.c",
        lambda: "not a token",
        lambda: sign(claims()) + "x" * 200_000,
    ],
)
@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_a_forged_token_is_refused(forge: Callable[[], str]) -> None:
    """Algorithms are pinned to RS256 and ES256, and only the published key's own signature counts."""
    with pytest.raises(IdentityInvalid):
        read(forge())


@pytest.mark.parametrize("kid", ["rotated", None])
def test_a_key_that_is_not_among_the_published_ones_is_said_to_be_unknown(kid: str | None) -> None:
    """The caller fetches the keys again before it refuses."""
    with pytest.raises(KeyUnknown):
        read(sign(claims(), kid=kid))


def test_a_token_without_a_key_id_is_read_when_there_is_one_key() -> None:
    """Providers with a single key may leave its name out."""
    one = KeySet.import_key_set(KeySet([EC]).as_dict(private=False))
    assert read_id_token(sign(claims(), kid=None), one, EXPECTED, now=lambda: NOW)["sub"] == "ada"


def test_headers_we_do_not_know_do_no_harm() -> None:
    """Providers add headers of their own; one that is marked critical refuses the token all the same."""
    assert read(sign_loosely(claims(), x_tenant="one"))["sub"] == "ada"
    with pytest.raises(IdentityInvalid):
        read(sign_loosely(claims(), crit=["x_tenant"], x_tenant="one"))


def sign_loosely(body: Mapping[str, Any], **header: Any) -> str:
    """Sign with headers that the signer's own library would not let pass."""
    signed = f"{encode({'alg': 'ES256', 'kid': 'ec', **header})}.{encode(dict(body))}"
    return f"{signed}.{encode(jws.JWSRegistry.algorithms['ES256'].sign(signed.encode(), EC))}"


@pytest.mark.invariant("I25")
@pytest.mark.parametrize("subject", ["ada", "Ada", " ada", "auth0|5f7c", "a" * 255, "İpek", "ada\u200b", "𝒶"])
def test_the_subject_is_taken_exactly_as_given(subject: str) -> None:
    """No case folding, no trimming, no normalising: a subject that differs is a different person."""
    assert identity_from(claims(sub=subject), {}).subject == subject


@pytest.mark.parametrize("subject", ["", "a" * 256, "a\0b", "\ud800"])
def test_a_subject_that_cannot_be_kept_signs_nobody_in(subject: str) -> None:
    """Shortening or replacing would make two people one."""
    with pytest.raises(IdentityInvalid, match="sub"):
        identity_from(claims(sub=subject), {})


@pytest.mark.invariant("I25")
def test_name_and_email_may_be_missing_and_are_never_the_subject() -> None:
    """They are for display; without them there is only the subject."""
    identity = identity_from(claims(), {})
    assert (identity.subject, identity.name, identity.email) == ("ada", None, None)


@pytest.mark.parametrize(
    ("given", "userinfo", "name"),
    [
        ({"name": "Ada Wren"}, {}, "Ada Wren"),
        ({}, {"sub": "ada", "name": "Ada Wren"}, "Ada Wren"),
        ({}, {"sub": "eve", "name": "Eve"}, None),
        ({}, {"name": "Nobody"}, None),
        ({"preferred_username": "ada.w"}, {}, "ada.w"),
        ({"name": "Ada\n\tWren\0"}, {}, "Ada Wren"),
        ({"name": "\u202eadA"}, {}, "adA"),
        ({"name": "زهرا\u200cسادات"}, {}, "زهرا\u200cسادات"),
        ({"name": "  "}, {}, None),
        ({"name": ["Ada"]}, {}, None),
        ({"name": "x" * 500}, {}, "x" * 200),
    ],
)
def test_a_name_is_one_short_line_to_show(given: dict[str, Any], userinfo: dict[str, Any], name: str | None) -> None:
    """From the token or from userinfo of the same subject; without control characters that could disturb a page."""
    assert identity_from(claims(**given), userinfo).name == name


def test_userinfo_decides_nothing() -> None:
    """Userinfo of another subject is not looked at, and what the token says wins."""
    identity = identity_from(claims(name="Ada", email="a@example.org"), {"sub": "ada", "name": "Eve", "email": "e@x"})
    assert (identity.name, identity.email) == ("Ada", "a@example.org")
