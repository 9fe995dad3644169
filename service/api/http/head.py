"""HEAD: the reply to GET without its body."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Head:
    """Calls the route with GET, and ends it after its headers, as an event stream would never end by itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        ended = False

        async def send_head(message: Message) -> None:
            nonlocal ended
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                ended = True

        async def receive_until_ended() -> Message:
            return {"type": "http.disconnect"} if ended else await receive()

        asked = dict(scope, method="GET")
        try:
            await self._app(asked, receive_until_ended, send_head)
        finally:
            scope["route"] = asked.get("route")  # by which the exchange is counted
