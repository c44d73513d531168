"""Memory as its owner sees it: both documents, what can be done with each entry, undo, export and forgetting."""

import io
import zipfile
from collections.abc import Callable
from typing import TypeVar

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from memory_core.document import FILENAMES, Target, render as render_document
from memory_core.database.transaction import Unit
from memory_core.errors import MemoryUnavailable, OperationRefused, OwnerGone, ReceiptGone, RefusalCode
from memory_core.operations import Action, Operation
from memory_core.owner import Actor, MemoryMode
from memory_core.receipts import Committed, Receipt, find_receipts, forget_receipt, undo_receipt
from memory_core.store import change_entry, commit_batches, forget_everything as forget_all, load_memory, set_modes
from webapp import frames, words
from webapp.auth.person import Person, require_person
from webapp.chat_pages import ChatPages, read_chat
from webapp.errors import NotFound
from webapp.memory_pages import (
    Opened,
    panel_view,
    read_panel,
    receipt_view,
    refusal_words,
    undo_refusal_words,
)
from webapp.render import render, render_partial
from webapp.services import Services, services_of
from webapp.views import EntryForm, Place, PanelView, ReceiptView

T = TypeVar("T")

#: What confirms that everything is to be forgotten.
CONFIRMATION = "forget"
EXPORT_NAME = "remembrancer-memory.zip"


async def page(request: Request) -> Response:
    """The memory page. ``?done=`` shows the receipt of a change made without script."""
    return await _page(request, await require_person(request), Opened.from_query(request.query_params))
