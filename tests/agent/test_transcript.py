"""The log as it is read: titles, what a prompt can carry of a conversation, and how an ending comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.transcript import (
    TITLE_CHARS,
    estimated_tokens,
    find_conversation,
    find_title,
    history,
    list_conversations,
    storable,
    title_of,
)
from tests.agent.turning import House, adding, assert_valid_request, says, stages
from tests.fakes.model_server import cut, text


class TestTitle:
    """The first words of the first message."""

    @pytest.mark.parametrize(
        ("message", "title"),
        [
            ("Hello", "Hello"),
            ("  two\n\nlines\tof words ", "two lines of words"),
            ("x" * 60, "x" * 60),
            ("x" * 61, "x" * 59 + "…"),
            ("word " * 20, ("word " * 20)[:54] + "…"),
            ("a " + "x" * 100, "a " + "x" * 57 + "…"),
        ],
        ids=["short", "white space", "just fits", "one more", "cut between words", "a word too long to cut before"],
    )
    def test_it_is_cut_where_a_word_ends(self, message: str, title: str) -> None:
        """Unless that would leave less than half of it."""
        assert title_of(message) == title

    @given(st.text(min_size=1, max_size=300))
    def test_it_always_fits_on_one_line(self, message: str) -> None:
        """For any message: at most so many code points, no line breaks, a beginning of what was said."""
        title = title_of(message)
        assert len(title) <= TITLE_CHARS
        assert "\n" not in title
        assert " ".join(message.split()).startswith(title.removesuffix("…"))


@given(st.text(alphabet=st.characters(), max_size=200))
def test_the_estimate_of_tokens_is_never_below_a_token_for_four_letters(message: str) -> None:
    """On the safe side of what tokenizers make of ordinary text; an empty one still has its frame."""
    assert estimated_tokens(message) >= len(message) / 4
    assert estimated_tokens("") > 0


@pytest.mark.parametrize(
    ("written", "kept"), [("ab", "ab"), ("a\0b", "a\ufffdb"), ("a\ud800b", "a?b"), ("👩‍👩‍👧", "👩‍👩‍👧")]
)
def test_what_postgresql_cannot_keep_is_made_visible(written: str, kept: str) -> None:
    """And everything else stays as it is."""
    assert storable(written) == kept


async def talk(house: House, *messages: str) -> str:
    """A conversation of several turns; the answer to each message is the message in capitals."""
    chat = None
    for message in messages:
        house.model.play(*says(message.upper()))
        chat = (await house.say(message, conversation_id=chat)).turn.conversation_id
    assert chat is not None
    return chat


@pytest.mark.invariant("I23")
class TestHistory:
    """What of a conversation goes into the next request."""

    async def test_the_newest_turns_that_fit_the_budget_go_in_whole(self, house: House) -> None:
        """For every budget: question and answer together or not at all, nothing before the first that is left out."""
        said = ["one", "two " * 30, "three", "four " * 5]
        chat = await talk(house, *said)
        sizes = [estimated_tokens(message) + estimated_tokens(message.upper()) for message in said]
        for tokens in range(sum(sizes) + 2):
            fits = max(count for count in range(5) if sum(sizes[4 - count :]) <= tokens)
            with house.engine.connect() as connection:
                sent = history(connection, chat, before=9, tokens=tokens)
            wanted = [text for message in said[4 - fits :] for text in (message, message.upper())]
            assert [message["content"] for message in sent] == wanted

    async def test_a_budget_of_nothing_leaves_a_valid_request(self, house: House) -> None:
        """The question alone."""
        chat = await talk(house, "one", "two")
        house.model.play(*says("Yes."))

        await house.say("Still there?", conversation_id=chat, history_tokens=0)

        assert [message["role"] for message in house.model.requests[-1].messages] == ["system", "user"]

    async def test_an_answer_that_is_missing_or_not_whole_says_so(self, house: House) -> None:
        """So that user and assistant still take turns."""
        house.model.play(cut())
        first = await house.say("one")
        house.model.play(text("Half an"), cut())
        await house.say("two", conversation_id=first.turn.conversation_id)
        house.model.play(*says("Yes."))

        await house.say("Still there?", conversation_id=first.turn.conversation_id)

        sent = house.model.requests[-1].messages
        assert_valid_request(sent)
        assert sent[2]["content"] == "[This message was not answered.]"
        assert sent[4]["content"] == "Half an\n\n[This answer was cut off here.]"


async def test_conversations_are_listed_by_their_last_use(house: House) -> None:
    """The one that was answered last stands first."""
    one = await talk(house, "one")
    two = await talk(house, "two")
    with house.engine.connect() as connection:
        assert [chat.title for chat in list_conversations(connection, house.owner())] == ["two", "one"]
    house.model.play(*says("Yes."))
    await house.say("And one?", conversation_id=one)

    with house.engine.connect() as connection:
        assert [chat.id for chat in list_conversations(connection, house.owner())] == [one, two]
        assert [chat.id for chat in list_conversations(connection, house.owner(), limit=1)] == [one]


async def test_a_conversation_is_read_as_it_was_told(house: House) -> None:
    """Questions, answers, endings, tools, and the places in between; around a turn, only what answers its question."""
    stages(house.model, adding("Likes tea."))
    one = await house.say("I like tea.")
    chat = one.turn.conversation_id
    house.model.play(text("Half an"), cut())
    two = await house.say("And jazz?", conversation_id=chat)

    with house.engine.connect() as connection:
        read = find_conversation(connection, house.owner(), chat)
        around = find_conversation(connection, house.owner(), chat, around=two.turn.id)
        assert find_title(connection, house.owner(), chat) == "I like tea."

    assert read is not None
    assert around is not None
    first, second = read.turns
    assert (first.question, first.answer, first.tools) == ("I like tea.", "Noted.", ("memory_update",))
    assert first.ending.memory.receipt_id == one.ending.memory.receipt_id
    assert first.ending.memory.user_characters == one.ending.memory.user_characters
    assert (second.answer, second.ending.outcome, second.ending.reason) == ("Half an", "failed", "model_broken")
    assert not second.is_running
    assert read.last_place == around.last_place == second.question_place
    assert [turn.id for turn in around.turns] == [two.turn.id]
