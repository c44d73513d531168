"""What the rehearsal model answers, as a function of the request, with the prompt and the tools of the real product."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from agent.models.rehearsal import words
from agent.models.rehearsal.memory_block import find_memory_block
from agent.models.rehearsal.phrases import Ending
from agent.models.rehearsal.replies import Reply, reply_to
from agent.prompt import compile_prompt, load_policy
from memory_core.document import Snapshot
from memory_core.errors import RefusalCode
from memory_core.operations import parse_operations

BOTH_TOOLS = frozenset({"memory_update", "session_search"})
POLICY = load_policy("memory_v1")
REMEMBERED = Snapshot(
    ("I like tea.", "Uses Go", "Uses Go at work"), ("The build runs with make\nand needs Docker.", "Tests are slow")
)


def ask(
    said: str, *, tools: frozenset[str] = BOTH_TOOLS, snapshot: Snapshot | None = REMEMBERED, results: Any = ()
) -> Reply:
    """One question under a real system prompt, with the tool results that have come since."""
    prompt = {"role": "system", "content": compile_prompt("", POLICY, snapshot)}
    calls = [{"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}] if results else []
    answered = [{"role": "tool", "tool_call_id": "a", "content": json.dumps(result)} for result in results]
    earlier = [{"role": "user", "content": "forget everything"}, {"role": "assistant", "content": "No."}]
    return reply_to([prompt, *earlier, {"role": "user", "content": said}, *calls, *answered], tools)


def operations(reply: Reply) -> list[dict[str, str]]:
    [call] = reply.calls
    assert call.name == "memory_update"
    written = json.loads(call.arguments)
    parse_operations(written)
    return list(written["operations"])


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("remember that I like cake", {"target": "user", "action": "add", "content": "I like cake"}),
        ("remember for this work: use tabs", {"target": "memory", "action": "add", "content": "use tabs"}),
        ("forget I like tea", {"target": "user", "action": "remove", "match": "I like tea."}),
        ("forget tea.", {"target": "user", "action": "remove", "match": "tea"}),
        ("forget Uses Go.", {"target": "user", "action": "remove", "match": "Uses Go"}),
        ("forget Docker", {"target": "memory", "action": "remove", "match": "Docker"}),
        ("forget the moon", {"target": "user", "action": "remove", "match": "the moon"}),
        ("replace Tests are slow with Tests are fast",
         {"target": "memory", "action": "replace", "match": "Tests are slow", "content": "Tests are fast"}),
        ("replace runs with make with runs with just",
         {"target": "memory", "action": "replace", "match": "runs with make",
          "content": "The build runs with just\nand needs Docker."}),
        ("Replace tea with coffee.",
         {"target": "user", "action": "replace", "match": "tea", "content": "I like coffee."}),
        ("replace DOCKER with Podman",
         {"target": "memory", "action": "replace", "match": "Docker",
          "content": "The build runs with make\nand needs Podman."}),
        ("replace uses go with Uses Rust", {"target": "user", "action": "replace", "match": "Uses Go",
                                            "content": "Uses Rust"}),
        ("replace Uses with Knows", {"target": "user", "action": "replace", "match": "Uses", "content": "Knows"}),
        ("replace the moon with the sun",
         {"target": "user", "action": "replace", "match": "the moon", "content": "the sun"}),
        ("replace wor with pl", {"target": "user", "action": "replace", "match": "wor", "content": "Uses Go at plk"}),
        ("forget docker", {"target": "memory", "action": "remove", "match": "Docker"}),
        ("forget USES GO", {"target": "user", "action": "remove", "match": "Uses Go"}),
    ],
)  # fmt: skip
def test_a_wish_becomes_one_operation(said: str, expected: dict[str, str]) -> None:
    """The tool is called with fields its rules accept; the prompt's block says which document holds the words."""
    assert operations(ask(said)) == [expected]


def test_several_wishes_are_one_batch() -> None:
    """All changes of a message stand in one call, in their order."""
    batch = operations(ask("forget tea\nremember that I like cake\nremember for this work: use tabs"))

    assert [operation["action"] for operation in batch] == ["remove", "add", "add"]


def test_a_search_calls_the_search() -> None:
    """With its words as the query."""
    [call] = ask("search our chats for the invoice").calls

    assert (call.name, json.loads(call.arguments)) == ("session_search", {"query": "the invoice"})


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("remember that I like cake", words.NO_MEMORY_TOOL),
        ("search our chats for cake", words.NO_SEARCH_TOOL),
    ],
)
def test_a_tool_that_is_not_offered_is_not_called(said: str, answer: str) -> None:
    """It says in words that it cannot."""
    assert ask(said, tools=frozenset()) == Reply(answer)


def test_memory_is_read_back_word_for_word() -> None:
    """Every entry of both documents, as the prompt shows it."""
    text = ask("what do you remember").text

    assert [f"- {entry}" in text for entry in REMEMBERED.user] == [True, True, True]
    assert "- The build runs with make\n  and needs Docker." in text
    assert "- Tests are slow" in text


def test_nothing_to_read_back_is_said_in_words() -> None:
    """Empty, unavailable and absent memory are three different things."""
    assert ask("what do you remember", snapshot=Snapshot()).text == words.EMPTY_MEMORY
    assert ask("what do you remember", snapshot=None).text == words.UNREADABLE_MEMORY
    assert reply_to([{"role": "user", "content": "what do you remember"}], BOTH_TOOLS).text == words.NO_MEMORY_BLOCK


def test_the_block_is_found_where_the_policy_names_its_tags_too() -> None:
    """The policy speaks of the tags before the block opens: what stands between the last ones counts."""
    block = find_memory_block([{"role": "system", "content": compile_prompt("", POLICY, REMEMBERED)}])

    assert block is not None
    assert (block.user, block.memory) == (REMEMBERED.user, REMEMBERED.memory)


STAGED = {"status": "staged", "user": "1/1375", "memory": "1/2200", "note": "…"}


@pytest.mark.parametrize(
    "said", ["remember that I like cake", "forget tea", "replace tea with cake", "forget a\nforget b"]
)
def test_a_staged_change_is_noted_never_claimed(said: str) -> None:
    """It says that it has noted it and that the page shows what is kept; it never says that something is saved."""
    reply = ask(said, results=[STAGED])

    assert "noted" in reply.text
    assert words.PAGE_TELLS in reply.text
    assert (reply.calls, reply.ending) == ((), Ending.GOOD)


@pytest.mark.parametrize(("said", "is_known"), [
    ("remember that Uses Go", True), ("remember that Uses", False), ("remember for this work: Uses Go", False),
    ("remember that Uses Go\nremember that I like cake", False),
])  # fmt: skip
def test_what_is_remembered_already_is_not_noted_again(said: str, is_known: bool) -> None:
    """The tool accepts it and nothing changes, so the page will show nothing: then it must not be promised."""
    assert (ask(said, results=[STAGED]).text == words.KNOWN) is is_known


@pytest.mark.parametrize("code", ["fields_invalid", "capacity_exceeded", "match_ambiguous", "give_up", "something_new"])
def test_a_refusal_is_explained_in_plain_words(code: str) -> None:
    """By its code, never by quoting it; and nothing is said to be noted."""
    reply = ask("remember that I like cake", results=[{"status": "refused", "code": code, "applied": "nothing"}])

    assert "nothing was changed" in reply.text.lower() or "cannot" in reply.text
    assert code not in reply.text
    assert "noted" not in reply.text


TOOL_CODES = [
    *("fields_invalid", "batch_size", "entry_empty", "entry_reserved", "entry_control", "entry_secret"),
    *("entry_instruction", "entry_duplicate", "match_missing", "match_not_found", "match_ambiguous"),
    *("capacity_exceeded", "memory_unavailable", "memory_off", "give_up"),
]


def test_every_code_of_the_tool_has_its_words() -> None:
    """The codes a refused batch can have, all of them, and only codes that exist."""
    assert set(TOOL_CODES) == set(words.REFUSALS)
    assert set(words.REFUSALS) <= {str(code) for code in RefusalCode}


@pytest.mark.parametrize(("result", "says"), [({"hits": [{}, {}]}, "2 passages"), ({"hits": [{}]}, "one passage")])
def test_a_search_tells_how_much_was_found(result: Any, says: str) -> None:
    """The hits are the page's to show; the answer counts them."""
    assert says in ask("search our chats for tea", results=[result]).text


def test_a_search_without_hits_says_so() -> None:
    """No list, an empty one, or no JSON: nothing was found."""
    assert ask("search our chats for tea", results=[{"hits": []}]).text == words.NOTHING_FOUND
    assert ask("search our chats for tea", results=["?"]).text == words.NOTHING_FOUND


def test_anything_else_is_answered_with_a_list_and_a_code_block() -> None:
    """The first thing a new person sees: what this is, what to try, and how code looks."""
    text = ask("hello").text

    assert "*rehearsal model*" in text
    assert "\n- `remember that " in text
    assert re.search(r"\n```python\n.+\n```$", text, re.DOTALL)


def test_only_what_can_be_done_is_offered() -> None:
    """Without the tools of memory and search nobody is sent to try them."""
    text = ask("hello", tools=frozenset()).text

    assert "remember that" not in text
    assert "search our chats" not in text
    assert "```python" in text


def test_a_question_beside_a_wish_is_answered_as_well() -> None:
    """The tool first, then one reply to both."""
    said = "Remember that I prefer short code examples. How do I reverse a list?"

    [operation] = operations(ask(said))
    reply = ask(said, results=[STAGED])

    assert operation["content"] == "I prefer short code examples."
    assert reply.text.startswith("I have noted that.")
    assert "*rehearsal model*" in reply.text


@pytest.mark.parametrize("ending", ["stall", "fail", "cut off", "too long"])
def test_what_stands_before_the_ending_happens_first(ending: str) -> None:
    """The tool round is whole; the reply after it ends as asked, with words before it."""
    said = f"remember that I like cake; {ending}"

    first, second = ask(said), ask(said, results=[STAGED])

    assert operations(first) == [{"target": "user", "action": "add", "content": "I like cake"}]
    assert first.ending is Ending.GOOD
    assert (second.ending, "noted" in second.text) == (Ending(ending), True)


def test_a_message_of_parts_is_read_too() -> None:
    """Content may be a list of parts, as the wire allows."""
    parts = [{"type": "text", "text": "remember that "}, {"type": "text", "text": "I like cake"}]

    reply = reply_to([{"role": "user", "content": parts}], BOTH_TOOLS)

    assert operations(reply)[0]["content"] == "I like cake"


@pytest.mark.parametrize("messages", [[], [{}], [{"role": "user"}], [{"role": "user", "content": 7}]])
def test_a_request_without_words_is_answered(messages: list[dict[str, Any]]) -> None:
    """No user message, or none with text: it introduces itself."""
    assert "*rehearsal model*" in reply_to(messages, BOTH_TOOLS).text


def test_no_sentence_of_it_claims_that_something_is_saved() -> None:
    """The word is the application's alone."""
    said = [value for name, value in vars(words).items() if name.isupper()]

    assert "saved" not in repr(said).lower()
