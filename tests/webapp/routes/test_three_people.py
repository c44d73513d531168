"""Every route of the site, met by three people: the owner, another signed-in person, and a stranger."""

from dataclasses import dataclass, field

import pytest
from starlette.routing import Mount, Route

from tests.fakes.model_server import ModelServer, finish, text, tool
from tests.webapp.product import Product, Signed

ADD_TEA = {"operations": [{"target": "user", "action": "add", "content": "Likes green tea."}]}


@dataclass(frozen=True)
class Met:
    """What a route answers to each of them. ``fields`` are what the owner's page would send."""

    owner: int
    other: int
    stranger: int
    fields: dict[str, str] = field(default_factory=dict)


#: By method and path. A person of one's own has pages and panels of one's own, so there "the other" fares like the
#: owner.
TABLE: dict[tuple[str, str], Met] = {
    ("GET", "/"): Met(303, 303, 303),
    ("GET", "/chats"): Met(200, 200, 303),
    ("POST", "/chats"): Met(200, 200, 401, {"message": "Hello", "key": "new"}),
    ("POST", "/chats/cancellations"): Met(204, 404, 401, {"key": "first"}),
    ("GET", "/chats/{chat}"): Met(200, 404, 303),
    ("POST", "/chats/{chat}/turns"): Met(200, 404, 401, {"message": "Hello", "key": "next"}),
    ("GET", "/chats/{chat}/turns/{turn}"): Met(200, 404, 303),
    ("GET", "/memory"): Met(200, 200, 303),
    ("GET", "/memory/panel"): Met(200, 200, 303),
    ("GET", "/memory/export"): Met(200, 200, 303),
    ("POST", "/memory/entries"): Met(200, 200, 401, {"target": "memory", "content": "The build runs with make."}),
    ("POST", "/memory/edits"): Met(200, 422, 401, {"target": "user", "digest": "{digest}", "content": "Likes coffee."}),
    ("POST", "/memory/removals"): Met(200, 422, 401, {"target": "user", "digest": "{digest}"}),
    ("POST", "/memory/undos"): Met(200, 422, 401, {"receipt": "{receipt}"}),
    ("POST", "/memory/receipts/forgettings"): Met(200, 404, 401, {"receipt": "{receipt}"}),
    ("POST", "/memory/forgettings"): Met(200, 200, 401, {"confirmation": "forget"}),
    ("POST", "/memory/modes"): Met(200, 200, 401, {"memory": "off"}),
    ("GET", "/sign-in"): Met(303, 303, 200),
    ("GET", "/auth/start"): Met(303, 303, 303),
    ("GET", "/auth/callback"): Met(303, 303, 303),
    ("POST", "/sign-out"): Met(303, 303, 303),
    ("GET", "/signed-out"): Met(303, 303, 200),
    ("GET", "/healthz"): Met(200, 200, 200),
    ("GET", "/readyz"): Met(200, 200, 200),
    ("GET", "/metrics"): Met(200, 200, 200),
}


def test_no_route_is_missing_from_the_table(product: Product) -> None:
    """The table is the site: a new route needs its row, and a row its route."""
    routes = {
        (method, route.path)
        for route in product.app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert routes == set(TABLE)
    assert {route.path for route in product.app.routes if isinstance(route, Mount)} == {"/static", "/local-provider"}


@pytest.mark.invariant("I26")
@pytest.mark.parametrize(("method", "path"), [pytest.param(*row, id=" ".join(row)) for row in TABLE])
def test_each_of_them_gets_the_right_answer(product: Product, model: ModelServer, method: str, path: str) -> None:
    """The owner is served; what is somebody else's looks as if it did not exist; a stranger is led to sign in."""
    ada, eve = product.sign_in("ada"), product.sign_in("eve")
    names = play_a_first_turn(ada, model)
    met = TABLE[method, path]
    stranger = Signed(product.url)
    product.browsers.append(stranger)
    for person, expected in ((stranger, met.stranger), (eve, met.other), (ada, met.owner)):
        model.play(text("Hello."), finish("stop"))
        assert ask(person, method, path.format(**names), met.fields, names) == expected


def play_a_first_turn(person: Signed, model: ModelServer) -> dict[str, str]:
    """A conversation in which something was saved; the names by which its parts are asked for."""
    model.play(tool("memory_update", ADD_TEA), finish("tool_calls"))
    model.play(text("Noted."), finish("stop"))
    said = person.say("I like green tea", key="first")
    page = person.memory_page()
    return {
        "chat": said.started["conversationId"],
        "turn": said.started["turnId"],
        "receipt": said.body.split('name="receipt" value="')[1].split('"')[0],
        "digest": page.split('name="digest" value="')[1].split('"')[0],
    }


def ask(person: Signed, method: str, path: str, fields: dict[str, str], names: dict[str, str]) -> int:
    """The status that comes back; a form is sent as script sends it."""
    if method == "GET":
        return person.step(path).status_code
    filled = {name: value.format(**names) for name, value in fields.items()}
    return person.post_form(path, filled, follow_redirects=False).status_code
