"""What would not be seen: refused, except where a reader's text needs it."""

import re
import unicodedata

import idna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.screening import screen, unicode_data
from memory_core.screening.generate import members
from memory_core.screening.structure import PERMITTED, character_class
from tests.memory_core.screening.ordinary_notes import VS15, VS16, ZWJ, ZWNJ
from tests.memory_core.strategies import LAWS

CONTROL = {("entry_control", "unseen_character")}
INVISIBLE = (
    "00AD 034F 061C 115F 1160 17B4 17B5 180B 180E 200B 200E 202E 2060 2064 2066 2069 2800 3164 FE00 FE0F FEFF FFA0 FFF9"
    " 1D159 1D173 E0001 E0020 E0041 E007F E0100 E01EF"
)
SCOTLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"


def rules_found(text: str) -> set[tuple[str, str]]:
    """Code and rule of every finding in an entry."""
    return {(finding.code, finding.rule) for finding in screen(text)}


@pytest.mark.invariant("I06")
@pytest.mark.parametrize("category", ["Cc", "Cf", "Cs"])
def test_every_control_format_character_and_surrogate_is_refused_among_letters(category: str) -> None:
    """All of them, one by one, line feed excepted."""
    for code in range(0x110000):
        if unicodedata.category(chr(code)) == category and chr(code) != "\n":
            assert rules_found(f"a{chr(code)}b") == CONTROL, hex(code)
    assert screen("a\nb") == ()


@pytest.mark.invariant("I06")
def test_every_noncharacter_is_refused() -> None:
    """The 66 code points that Unicode promises never to assign."""
    nonchars = [*range(0xFDD0, 0xFDF0), *(plane * 0x10000 + end for plane in range(17) for end in (0xFFFE, 0xFFFF))]
    assert len(nonchars) == 66
    for code in nonchars:
        assert rules_found(f"a{chr(code)}b") == CONTROL, hex(code)


@pytest.mark.invariant("I06")
def test_what_is_not_assigned_passes_unless_it_will_never_be_seen() -> None:
    """New letters and emoji need no release; reserved places that are ignorable by default are refused."""
    never_seen = set(members(unicode_data.IGNORABLES)) | set(members(unicode_data.CONTROLS))
    step = 97  # a sample: there are more than 800,000
    for code in range(0, 0x110000, step):
        if unicodedata.category(chr(code)) == "Cn" and code & 0xFFFE != 0xFFFE and not 0xFDD0 <= code <= 0xFDEF:
            assert rules_found(f"a{chr(code)}b") == (CONTROL if code in never_seen else set()), hex(code)
    for code in (0x2065, 0xFFF0, 0xE0000, 0xE0080, 0xE0FFF):
        assert rules_found(f"a{chr(code)}b") == CONTROL


@pytest.mark.invariant("I06")
@pytest.mark.parametrize("code", list(members(INVISIBLE)), ids=hex)
def test_invisible_text_is_refused(code: int) -> None:
    """Fillers, blanks, bidi controls, tags, selectors, soft hyphen, byte order mark: alone and among letters."""
    assert rules_found(chr(code)) == CONTROL
    assert rules_found(f"a{chr(code)}b") == CONTROL
    assert rules_found(f"a {chr(code)}") == CONTROL


@pytest.mark.invariant("I06")
@pytest.mark.parametrize(
    "char", ["\u00a0", "\u202f", "\u3000", "\u1680", "\ue000", "\uf8ff", "\u0301", "\ufffd", "\ufffc"]
)
def test_spaces_marks_and_private_characters_pass(char: str) -> None:
    """What has a width or a shape of its own is seen."""
    assert screen(f"a{char}b") == ()


@pytest.mark.invariant("I06")
@pytest.mark.parametrize(
    "text",
    [
        f"👨{ZWJ}",
        f"{ZWJ}👨",
        f"👨{ZWJ}{ZWJ}👩",
        f"👨{ZWJ}x",
        f"x{ZWJ}👩",
        f"👨{ZWJ}🏽",
        f"🏽{ZWJ}👨",
        f"👨{VS15}{ZWJ}👩",
        f"👨🏽🏽{ZWJ}👩",
        f"1{VS16}{ZWJ}👩",
        f"🇩{ZWJ}🇪",
        f"x{VS16}",
        f"{VS16}",
        f"❤{VS16}{VS16}",
        f"❤{VS15}{VS16}",
        f"🚀{VS16}",
        f"👩🏽{VS16}",
        "❤\ufe00",
        "a\ufe00",
        "1\ufe00",
        "あ\U000e0100",
        "葛\U000e0100\U000e0101",
        "葛\ufe03",
        "葛\ufe0f",
        SCOTLAND[:-1],
        SCOTLAND[1:],
        SCOTLAND[0] + SCOTLAND[-1],
        SCOTLAND.replace("\U000e0073", "\U000e0078"),
        SCOTLAND.replace("\U0001f3f4", "🏁"),
        SCOTLAND + "\U000e0061",
        "⠓\u2800",
        "\u2800⠓",
        "⠓\u2800\u2800⠑",
        "⠓\u2800x",
    ],
    ids=ascii,
)
def test_a_near_miss_of_what_may_be_unseen_is_refused(text: str) -> None:
    """Joiners, selectors, tags and blanks outside the place that needs them."""
    assert rules_found(text) == CONTROL


@pytest.mark.invariant("I06")
@pytest.mark.parametrize(
    "text",
    [
        f"a{ZWNJ}b",
        f"{ZWNJ}ب",
        f"ب{ZWNJ}",
        f"ب{ZWNJ}{ZWNJ}ب",
        f"ا{ZWNJ}ب",  # alef joins to the letter before it only
        f"ب{ZWNJ}a",
        f"ب{ZWNJ} ب",
        f"ب{ZWJ}ب",
        f"क{ZWJ}ष",
        f"क{ZWNJ}ष",
        f"क्{ZWJ}{ZWJ}ष",
        f"क्{ZWNJ}{ZWNJ}ष",
        f"ب\u00ad{ZWNJ}ب",
        f"ب{ZWNJ}\u200eب",
    ],
    ids=ascii,
)
def test_a_joiner_outside_its_context_is_refused(text: str) -> None:
    """Near misses of RFC 5892 A.1 and A.2."""
    assert rules_found(text) == CONTROL


JOINABLE = "ابدریمـ\u064b\u0670ܐܒܕ\u0711ߊߒ߫कष\u094d\u093c\u0941ক\u09cdක\u0dcaகு\u0bcdaé\u0301 ᠠᠡꡀ"


@pytest.mark.invariant("I06")
@LAWS
@given(st.text(JOINABLE, max_size=5), st.sampled_from([ZWNJ, ZWJ]), st.text(JOINABLE, max_size=5))
def test_joiners_are_judged_as_an_independent_reading_of_the_rfc_does(before: str, joiner: str, after: str) -> None:
    """The idna package, written by others for domain names, permits and forbids the same contexts."""
    text = f"{before}{joiner}{after}"
    try:
        permitted = idna.core.valid_contextj(text, len(before))
    except ValueError:  # raised where no character of a known name stands before the joiner
        permitted = False
    assert (screen(text) == ()) is permitted


@pytest.mark.invariant("I06")
@LAWS
@given(
    st.lists(st.sampled_from([*"aب葛❤👨🏽क्⠓⠑🏴", ZWJ, ZWNJ, VS15, VS16, "\u2800", "\U000e0100", SCOTLAND]), max_size=12)
)
def test_no_unseen_character_gets_past_by_its_neighbours(pieces: list[str]) -> None:
    """Whatever passes has every joiner, selector and blank right behind something seen that takes it."""
    text = "".join(pieces)
    if screen(text) == ():
        takes = {ZWJ: "❤👨🏽\ufe0f्🏴", ZWNJ: "्ب", VS15: "❤👨"[:1], VS16: "❤", "\u2800": "⠓⠑", "\U000e0100": "葛"}
        for index, char in enumerate(text):
            assert char not in takes or (index and text[index - 1] in takes[char])


def test_ranges_become_a_character_class() -> None:
    """Single code points and ranges, of any plane, from several texts; and nothing that has a meaning in a class."""
    matched = re.compile(character_class("002D 005D..005E", "1F600..1F601 0061"))
    assert [char for char in "-]^\\aX😀😁[_b😂." if matched.match(char)] == list("-]^a😀😁")
    assert character_class("0061..0062") == r"[\U00000061-\U00000062]"


def test_every_permitted_place_has_a_name_and_is_used() -> None:
    """The table of exceptions is what the docstring promises: no more kinds than these."""
    kinds = [name for name in PERMITTED if not name.startswith("variation sequence with")]
    assert kinds == [
        "emoji joined to one",
        "subdivision flag",
        "ideographic variation",
        "joiner after a virama (RFC 5892 A.1, A.2)",
        "ZWNJ between joining letters (RFC 5892 A.1)",
        "one blank between braille cells",
    ]
