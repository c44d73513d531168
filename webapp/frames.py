"""What the browser is sent while a turn runs, and what it gets back for an htmx request. Owns the grammar of partials.

A stream (``text/event-stream``, answering the POST of the composer or of a button of ``#say``) is a row of frames, each
ready bytes:

    started     unnamed: the question and the answer's shell go to the end of ``#log``; the buttons *Regenerate* of
                earlier answers go. In a new chat also: ``#greeting`` goes, ``#head`` is filled, the memory panel comes.
                Then named ``turn.started``.
    text        unnamed: finished blocks to the end of ``#blocks-{id}``, the unfinished one into ``#live-{id}``
    step        unnamed: what the agent is doing, in ``#step-{id}``; no words take the line away
    receipt     unnamed: ``#receipt-{id}``, morphed
    panel       unnamed: ``#panel``, morphed
    ended       unnamed: the whole answer ``#turn-{id}``, morphed into what a reload would show; the panel; one sentence
                in ``#announce``. Then named ``turn.ended``. Nothing follows.
    HEARTBEAT   a comment

An unnamed message holds only ``<hx-partial>`` elements, because the form that sent the message must never be swapped
itself. A target that is not on the page is passed over in silence, so a frame fits both the chat and the memory page.
Named messages carry JSON for script: ``turn.started {turnId, conversationId, title}`` and
``turn.ended {turnId, conversationId, outcome, memory}``.

Answers to other htmx requests (``reply``, ``panel_reply``, ``turn_now``) are partials in plain HTML. An error is one
``errors/_notice.html``, from ``error_pages``; the page puts it into ``#notice``.

Everything in a partial is escaped by a template or comes from the sanitizer. Even so ``<hx-`` is taken out of every
content: htmx turns those tags into templates by searching the raw text, attribute values included.
"""

import re
from collections.abc import Sequence

import orjson
from markupsafe import Markup

from webapp.render import render_partial
from webapp.views import ChatGroup, ChatView, NoticeView, PanelView, Place, ReceiptView, TurnView

HEARTBEAT = b": still here\n\n"

_HTMX_TAG = re.compile(r"<(?=/?hx-)", re.IGNORECASE)


# Frames of a stream.


def started(
    turn: TurnView, *, chat: ChatView | None = None, groups: Sequence[ChatGroup] = (), title: str = ""
) -> bytes:
    """The turn is on record. ``chat`` for the first turn of a new chat; ``groups`` when the navigation changes."""
    parts = [
        partial("[data-regenerate]", "delete"),
        partial("#log", "beforeend", render_partial("turns/_started.html", turn=turn)),
    ]
    if chat is not None:
        parts += [
            partial("#greeting", "delete"),
            partial("#head", "innerMorph", render_partial("chats/_head.html", title=chat.title, has_panel=True)),
            partial("#desk", "beforeend", render_partial("chats/_panel.html", panel=chat.panel)),
        ]
    if groups:
        parts.append(partial("#chats-list", "innerMorph", render_partial("chats/_list.html", groups=groups)))
    data = {"turnId": turn.id, "conversationId": turn.conversation_id, "title": chat.title if chat else title}
    return message(*parts) + named("turn.started", data)


def text(turn_id: str, frozen: Sequence[Markup], live: Markup) -> bytes:
    """More of the answer. The hot path: no template, one join."""
    parts = [partial(f"#live-{turn_id}", "innerMorph", live)]
    if frozen:
        parts.insert(0, partial(f"#blocks-{turn_id}", "beforeend", "".join(frozen)))
    return message(*parts)


def step(turn_id: str, words: str) -> bytes:
    """What the agent is doing, in a few words; an empty string takes the line away."""
    return message(
        partial(f"#step-{turn_id}", "outerMorph", render_partial("turns/_step.html", id=turn_id, step=words))
    )


def receipt(view: ReceiptView) -> bytes:
    """The receipt, in whatever state it is."""
    return message(_receipt(view))


def panel(view: PanelView) -> bytes:
    """The memory panel, as it is now."""
    return message(_panel(view))


def ended(
    turn: TurnView,
    announcement: str,
    *,
    outcome: str,
    memory: str,
    panel: PanelView | None = None,
    replaces: Sequence[str] = (),
) -> bytes:
    """The end, told after it is on record. ``replaces``: the turns whose answers this one takes the place of."""
    parts = [partial(f"#turn-{turn.id}", "outerMorph", render_partial("turns/_answer.html", turn=turn))]
    parts += [partial(f"#turn-{other}", "delete") for other in replaces]
    if panel is not None:
        parts.append(_panel(panel))
    parts.append(_announcement(announcement))
    data = {"turnId": turn.id, "conversationId": turn.conversation_id, "outcome": outcome, "memory": memory}
    return message(*parts) + named("turn.ended", data)


# Answers to other htmx requests.


def reply(*, receipts: Sequence[ReceiptView] = (), panel: PanelView | None = None, announcement: str = "") -> str:
    """After *Undo*, *Forget now* or a change of mode: the receipts and the panel it concerns, and a sentence."""
    parts = [_receipt(view) for view in receipts]
    if panel is not None:
        parts.append(_panel(panel))
    if announcement:
        parts.append(_announcement(announcement))
    return "".join(parts)


def panel_reply(panel: PanelView, announcement: str = "") -> str:
    """After a change made in the panel, accepted or refused (then with status 422 and the form still open)."""
    return reply(panel=panel, announcement=announcement)


def turn_now(turn: TurnView, *, panel: PanelView | None = None, announcement: str = "") -> str:
    """A turn that is asked for once a second; with the panel and the sentence when it has ended."""
    answer = _without_htmx_tags(render_partial("turns/_answer.html", turn=turn))
    return answer + reply(panel=panel, announcement=announcement)


def panel_now(view: PanelView) -> str:
    """The panel alone, for an element that swaps it in itself."""
    return _without_htmx_tags(render_partial("memory/_panel.html", panel=view))


def notice(view: NoticeView) -> str:
    """A refusal in words that no error class stands for, with a 4xx; the page puts it into ``#notice``."""
    return render_partial("notices/_notice.html", notice=view)


def _receipt(view: ReceiptView) -> str:
    return partial(f"#receipt-{view.key}", "outerMorph", render_partial("turns/_receipt.html", receipt=view))


def _panel(view: PanelView) -> str:
    shown = partial("#panel", "innerMorph", render_partial("memory/_panel.html", panel=view))
    if view.place is not Place.NEW:
        return shown
    # under the greeting the switch stands apart from the sheets
    return shown + partial("#mode", "innerMorph", render_partial("memory/_mode.html", panel=view))


def _announcement(words: str) -> str:
    return partial("#announce", "textContent", str(Markup.escape(words)))


# The grammar.


def partial(target: str, swap: str, html: str = "") -> str:
    """One element for htmx: put ``html`` where ``target`` says."""
    return f'<hx-partial hx-target="{target}" hx-swap="{swap}">{_without_htmx_tags(html)}</hx-partial>'


def _without_htmx_tags(html: str) -> str:
    return _HTMX_TAG.sub(r"&lt;", html)


def message(*partials: str) -> bytes:
    """An unnamed message."""
    return _message("", "".join(partials))


def named(event: str, data: object) -> bytes:
    """A message for script."""
    return _message(f"event: {event}\n", orjson.dumps(data).decode())


def _message(head: str, data: str) -> bytes:
    lines = data.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\ndata: ")
    return f"{head}data: {lines}\n\n".encode()
