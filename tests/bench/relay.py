"""The plain relay: what one writes first to pass a model's answer on to a browser. What we are compared with.

python -m tests.bench.relay http://127.0.0.1:PORT/v1        prints its address and serves until it is ended
"""

import socket
import sys
from collections.abc import AsyncIterator

import uvicorn
from openai import AsyncOpenAI
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route


def create_relay(model_url: str) -> Starlette:
    """One route: a message in, its answer out as events."""
    client = AsyncOpenAI(base_url=model_url, api_key="none")

    async def answer(request: Request) -> EventSourceResponse:
        message = (await request.json())["message"]

        async def pieces() -> AsyncIterator[dict[str, str]]:
            stream = await client.chat.completions.create(
                model="bench", messages=[{"role": "user", "content": message}], stream=True
            )
            async for chunk in stream:
                if chunk.choices and chunk.choices[0].delta.content:
                    yield {"data": chunk.choices[0].delta.content}
            yield {"event": "done", "data": ""}

        return EventSourceResponse(pieces())

    return Starlette(routes=[Route("/", answer, methods=["POST"])])


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(create_relay(sys.argv[1]), log_level="warning", access_log=False)
    uvicorn.Server(config).run([listener])
