"""An ordinary turn: what it says, in which order, and what it leaves behind."""

from tests.agent.turning import (
    House,
    adding,
    answers_of,
    assert_agrees,
    says,
    stages,
    turn_row,
)


async def test_an_answer_is_told_as_it_comes_and_stored_at_the_end(house: House) -> None:
    """A turn without tools: started, text, ended; the answer is in its place in the log."""
    house.model.play(*says("Hel", "lo."))

    told = await house.say("Hi")

    assert told.kinds[0] == "TurnStarted"
    assert set(told.kinds[1:-1]) == {"TextDelta"}
    assert told.ending.outcome == "completed"
    assert answers_of(house.engine, told.turn.id) == ["Hello."]


async def test_staged(house: House) -> None:
    """x"""
    stages(house.model, adding("Likes tea."))
    told = await house.say("I like tea")
    print(told)
    print(turn_row(house.engine, told.turn.id))
    assert_agrees(house.engine, told.turn.id, told.ending, "Likes tea.")
