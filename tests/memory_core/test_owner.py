"""Owner: an exact subject that never shows in a log line; and the fixed words beside it."""

import copy
import re
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.owner import Actor, LearningMode, MemoryMode, Owner
from tests.memory_core.strategies import LAWS

subjects = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=255)


@pytest.mark.invariant("I25")
@LAWS
@given(subjects, subjects)
def test_owners_are_equal_exactly_when_their_subjects_are(one: str, other: str) -> None:
    """Subjects are compared code point by code point: nothing is folded, trimmed or normalised."""
    assert (Owner("org", "agt", one) == Owner("org", "agt", other)) == (one == other)
    assert Owner("org", "agt", one).subject == one


@pytest.mark.invariant("I25")
@pytest.mark.parametrize("other", ["ANNA", "anna ", " anna", "änna", "a\u0308nna", "аnna"])
def test_near_misses_of_a_subject_are_other_people(other: str) -> None:
    """Differing case, white space, composition or script is a different person."""
    assert Owner("org", "agt", "anna") != Owner("org", "agt", other)


@pytest.mark.invariant("I25")
def test_the_same_subject_elsewhere_is_another_owner() -> None:
    """Organization and agent are part of who the owner is."""
    owners = {Owner("org1", "agt1", "anna"), Owner("org2", "agt1", "anna"), Owner("org1", "agt2", "anna")}
    assert len(owners) == 3


@pytest.mark.parametrize("subject", ["", "x" * 256, "a\0b", "\ud800", "a\udfffb"])
def test_a_subject_that_cannot_be_one_is_refused(subject: str) -> None:
    """Empty, longer than 255, with U+0000 or with a lone surrogate; the message does not repeat it."""
    with pytest.raises(ValueError, match="a subject h") as refused:
        Owner("org", "agt", subject)
    assert str(refused.value) in {
        f"a subject has 1 to 255 characters, not {len(subject)}",
        "a subject holds no U+0000 and no lone surrogate",
    }


@pytest.mark.parametrize("subject", ["x", "x" * 255, "𝒳" * 255, "\x01", "\ud7ff\ue000"])
def test_a_subject_at_the_edge_of_what_is_allowed_is_accepted(subject: str) -> None:
    """255 code points of any plane, and the neighbours of what is refused."""
    assert Owner("org", "agt", subject).subject == subject


@LAWS
@given(subjects)
def test_the_subject_never_shows(subject: str) -> None:
    """repr and str name the owner by twelve digits of a digest, whatever the subject looks like."""
    owner = Owner("org", "agt", subject)
    assert re.fullmatch(r"Owner\(organization_id='org', agent_id='agt', subject=#[0-9a-f]{12}\)", repr(owner))
    assert str(owner) == repr(owner)


def test_a_worked_repr() -> None:
    """The digest is the first twelve digits of the subject's SHA-256."""
    assert (
        repr(Owner("org_1", "agt_1", "anna"))
        == "Owner(organization_id='org_1', agent_id='agt_1', subject=#55579b557896)"
    )


def test_an_owner_cannot_be_changed_and_survives_copying() -> None:
    """It is a value: frozen, hashable, equal to its copies."""
    owner = Owner("org", "agt", "anna")
    with pytest.raises(FrozenInstanceError):
        owner.subject = "bert"  # type: ignore[misc]  # the very thing that is tested
    assert copy.deepcopy(owner) == owner
    assert hash(copy.copy(owner)) == hash(owner)
    assert not hasattr(owner, "__dict__")


def test_the_words_are_the_stored_ones() -> None:
    """Modes and actors as the database and the page spell them."""
    assert [str(mode) for mode in MemoryMode] == [str(mode) for mode in LearningMode] == ["auto", "ask", "off"]
    assert list(Actor) == ["agent", "person", "operator", "review", "import", "undo", "approval"]
