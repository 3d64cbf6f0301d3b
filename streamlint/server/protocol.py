"""The protocol, where pygls leaves a client without an answer or keeps too much."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from cattrs import transform_error
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future


class Protocol(LanguageServerProtocol):
    """Every request has an answer, and nothing is kept of what was answered."""

    def structure_message(self, data: dict[str, Any]) -> object:
        """Return the message that an object is; pygls asks for each object inside of it too."""
        method, number = data.get("method"), data.get("id")
        if "jsonrpc" not in data or not isinstance(method, str):
            return super().structure_message(data)
        if not self._is_served(method):
            # `$/progress` needs no parameters to be unknown.
            data = {"params": None, **data}
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            said = "; ".join(transform_error(error.__cause__, path="params")) if error.__cause__ else "?"
            wrong = JsonRpcInvalidParams(f"the parameters of {method} are wrong: {said}")
            if isinstance(number, (int, str)):
                self._send_response(number, error=wrong.to_response_error())
            raise wrong from None

    def handle_message(self, message: Any) -> None:  # noqa: ANN401
        if isinstance(message, dict) and isinstance(number := message.get("id"), (int, str)):
            wrong = JsonRpcInvalidRequest("a message says `jsonrpc`: `2.0`")
            self._send_response(number, error=wrong.to_response_error())
            return
        method = getattr(message, "method", None)
        if method is None or method in (types.INITIALIZE, types.EXIT) or self._workspace is not None:
            super().handle_message(message)
        elif hasattr(message, "id"):
            early = JsonRpcServerNotInitialized("the first request is `initialize`")
            self._send_response(message.id, error=early.to_response_error())

    def _is_served(self, method: str) -> bool:
        return method in self.fm.features or method in self.fm.builtin_features

    def _execute_handler(
        self,
        msg_id: str | int,
        handler: Callable[..., object],
        callback: Callable[[Future[object]], object],
        args: tuple[object, ...] | None = None,
        kwargs: dict[str, object] | None = None,
    ) -> None:
        """Forget what came of a notification: pygls keeps it as long as it runs, 7 KB with each key."""

        def done(future: Future[object]) -> None:
            # Not at once: when it shuts down pygls cancels all of them in a loop over this dict.
            asyncio.get_running_loop().call_soon(self._request_futures.pop, msg_id, None)
            callback(future)

        super()._execute_handler(msg_id, handler, done, args, kwargs)
