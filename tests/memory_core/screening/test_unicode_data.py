"""The generated Unicode table and its generator."""

import runpy
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.screening import generate, unicode_data
from memory_core.screening.generate import members, module_from, ranges, render_module
from tests.memory_core.strategies import LAWS

DATABASE = {
    "PropList.txt": """# PropList-99.1.2.txt
        FDD0..FDD1 ; Noncharacter_Code_Point # x
        4E00..4E02;Unified_Ideograph
        0020;White_Space""",
    "DerivedCoreProperties.txt": """
        00AD ; Default_Ignorable_Code_Point
        115F..1160; Default_Ignorable_Code_Point # fillers
        0041; Alphabetic""",
    "extracted/DerivedGeneralCategory.txt": """
        0000..001F ; Cc # controls
        00AD ; Cf
        0041; Lu""",
    "extracted/DerivedCombiningClass.txt": """
        094D ; 9 # virama
        0300..0302; 230""",
    "extracted/DerivedJoiningType.txt": """
        0628; D
        0622; R
        A872; L
        0300..0301; T
        00AD; T
        1160; T""",
    "emoji/emoji-data.txt": """
        1F600..1F602 ; Extended_Pictographic# E1.0 [3] (😀..😂)
        1F3FB ; Emoji_Modifier
        0023; Emoji""",
    "emoji/emoji-sequences.txt": """
        1F3F4 E0067 E0062 E007F ; RGI_Emoji_Tag_Sequence ; flag # x
        1F1E6 1F1E8; RGI_Emoji_Flag_Sequence; y""",
    "emoji/emoji-variation-sequences.txt": """
        0023 FE0E ; text style; # x
        0023 FE0F ; emoji style; # x""",
    "StandardizedVariants.txt": """
        0030 FE00; short diagonal stroke form; # DIGIT ZERO
        4E0D FE00; CJK COMPATIBILITY IDEOGRAPH-F967; # x""",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A very small Unicode Character Database."""
    for name, text in DATABASE.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_the_generator_reads_each_property_from_its_file(folder: Path) -> None:
    """Every value of the made-up database ends where it belongs, and nothing else does."""
    values: dict[str, object] = {}
    exec(module_from(folder), values)  # noqa: S102 - our own generated text
    assert values["UNICODE_VERSION"] == "99.1.2"
    assert {name: values[name] for name in generate.SETS} == {
        "CONTROLS": "0000..001F 00AD",
        "IGNORABLES": "115F..1160",
        "NONCHARACTERS": "FDD0..FDD1",
        "VIRAMAS": "094D",
        "JOINS_LEFT": "0628 A872",
        "JOINS_RIGHT": "0622 0628",
        "TRANSPARENT": "0300..0301",
        "PICTOGRAPHS": "1F600..1F602",
        "SKIN_TONES": "1F3FB",
        "IDEOGRAPHS": "4E00..4E02",
    }
    assert values["VARIATION_BASES"] == {"FE00": "0030", "FE0E..FE0F": "0023"}
    assert values["FLAG_TAGS"] == ("gb",)


def test_the_same_folder_gives_the_same_bytes(folder: Path) -> None:
    """Generating twice changes nothing."""
    assert module_from(folder) == module_from(folder)


def test_a_database_without_a_version_is_refused(folder: Path) -> None:
    """The table must be able to name what it was made from."""
    (folder / "PropList.txt").write_text("0020;White_Space\n# PropList-1.2.3.txt\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"^PropList\.txt does not name its Unicode version in its first line$"):
        module_from(folder)


def test_the_committed_table_is_what_the_generator_writes() -> None:
    """Rendering the committed values again gives the committed file, byte for byte: nobody has edited it by hand."""
    sets = {name: members(getattr(unicode_data, name)) for name in generate.SETS}
    bases = {
        selector: members(taken) for group, taken in unicode_data.VARIATION_BASES.items() for selector in members(group)
    }
    rendered = render_module(unicode_data.UNICODE_VERSION, sets, bases, unicode_data.FLAG_TAGS)
    assert generate.OUTPUT.read_text(encoding="utf-8") == rendered


def test_the_committed_table_agrees_with_pythons_own_data() -> None:
    """For everything Python's Unicode version has assigned: the same controls and format characters and viramas."""
    controls, viramas = set(members(unicode_data.CONTROLS)), set(members(unicode_data.VIRAMAS))
    for code in range(0x110000):
        category = unicodedata.category(chr(code))
        assert category in ("Cn", "Cs") or (category in ("Cc", "Cf")) == (code in controls), hex(code)
        assert category == "Cn" or (unicodedata.combining(chr(code)) == 9) == (code in viramas), hex(code)


def test_the_table_names_its_version() -> None:
    """Unicode 15.0, whatever the running Python knows."""
    assert unicode_data.UNICODE_VERSION == "15.0.0"
    assert unicode_data.FLAG_TAGS == ("gbeng", "gbsct", "gbwls")


@LAWS
@given(st.sets(st.integers(0, 200) | st.integers(0, 0x10FFFF)))
def test_ranges_hold_exactly_what_was_put_in(code_points: set[int]) -> None:
    """members undoes ranges; neighbours share a range."""
    text = ranges(code_points)
    assert list(members(text)) == sorted(code_points)
    assert len(text.split()) == sum(code - 1 not in code_points for code in code_points)


@pytest.mark.parametrize(
    ("code_points", "text"), [([], ""), ([0x61, 0x63, 0x64], "0061 0063..0064"), ([0x1F600], "1F600")]
)
def test_worked_ranges(code_points: list[int], text: str) -> None:
    """At least four digits, two dots between the ends."""
    assert ranges(code_points) == text


@pytest.mark.parametrize(
    "chars", [0, 1, 90, 91, 92, 93, 100, 103, 104, 105, 106, 107, 108, 109, 110, 111, 115, 120, 500]
)
def test_a_long_value_is_cut_into_lines_that_keep_it_whole(chars: int) -> None:
    """However long the value: no line is over 120 columns, and read back it is the same."""
    value = ("ABCD " * 200)[:chars].strip()
    written = generate._assignment("NAME: Final =", value)
    values: dict[str, object] = {"Final": object}
    exec(written, values)  # noqa: S102 - our own generated text
    assert values["NAME"] == value
    assert max(map(len, written.splitlines())) <= 120
    entry: dict[str, str] = eval("{" + generate._assignment('    "KEY":', value, ",") + "}")  # noqa: S307 - our own generated text
    assert entry == {"KEY": value}


@pytest.mark.parametrize(("start", "end"), [("NAME =", ""), ('    "KEY":', ",")])
def test_a_value_is_broken_exactly_where_it_no_longer_fits(start: str, end: str) -> None:
    """One line of up to 120 columns; then one piece between brackets of up to 120; then several."""
    indent = len(start) - len(start.lstrip())
    room = 120 - len(start) - len(end) - 3  # a space and two quotes
    between = 120 - indent - 4 - 2
    for chars, lines in ((room, 1), (room + 1, 3), (between, 3), (between + 1, 4)):
        text = "A" * (chars // 2) + " " + "B" * (chars - chars // 2 - 1)
        assert len(text) == chars
        assert len(generate._assignment(start, text, end).splitlines()) == lines


def test_the_command_writes_the_table(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One folder is written from; any other number of arguments is a wrong usage and writes nothing."""
    output = folder / "written.py"
    monkeypatch.setattr(generate, "OUTPUT", output)
    assert generate.main([]) == generate.main(["a", "b"]) == 2
    assert capsys.readouterr().err == "usage: python -m memory_core.screening.generate FOLDER\n" * 2
    assert not output.exists()
    assert generate.main([str(folder)]) == 0
    assert capsys.readouterr().out == "wrote written.py\n"
    assert output.read_text(encoding="utf-8") == module_from(folder)


def test_it_runs_as_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as a script it ends with its exit code."""
    monkeypatch.setattr(sys, "argv", ["generate.py"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(Path(generate.__file__)), run_name="__main__")
    assert ended.value.code == 2
