"""A process that is asked: which questions it gets, in which order, and which of them are given up."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING

from streamlint.frozen import frozen
from streamlint.run.pool import Standing
from streamlint.server.analysis import Analysis, Answer

if TYPE_CHECKING:
    from pathlib import Path

    from streamlint.server.analysis import Question

STALE = 1.0
"""An analysis of what has changed meanwhile is ended after so many seconds more; most end by themselves."""
MOST_BYTES = 700_000_000
"""A process of the analysis that has taken more memory than this is replaced by a new one."""


@frozen()
class _Turn:
    about: str
    number: int


class Analyst:
    """A process that answers the last question about each document; earlier ones are given up.

    An editor that is started opens all files of its last session at once, and wants to know of each. What was
    asked last has its answer first: it is what the user looks at.
    """

    def __init__(self) -> None:
        self._process: Standing | None = None
        self._numbers = count()
        self._latest: dict[str, int] = {}
        self._running: _Turn | None = None
        self._waiting: list[_Turn] = []
        self._turns = asyncio.Condition()

    async def ask(self, about: str, root: Path, question: Question, pause: float) -> Answer | None:
        """Return the answer, or None if another question about this came meanwhile or the process ended."""
        turn = _Turn(about, next(self._numbers))
        self._latest[about] = turn.number
        await asyncio.sleep(pause)
        if self._is_stale(turn):
            return None
        running = self._running
        if running is not None and running.about == about:
            asyncio.get_running_loop().call_later(STALE, self._give_up, running)
        if not await self._comes(turn):
            return None
        try:
            process = self._process = self._process or Standing(Analysis(root), root)
            answer = await asyncio.get_running_loop().run_in_executor(None, process.ask, question)
        finally:
            self._running = None
            async with self._turns:
                self._turns.notify_all()
        if isinstance(answer, Answer) and answer.resident > MOST_BYTES:
            self.stop()
        if self._is_stale(turn):
            return None
        del self._latest[about]
        return answer if isinstance(answer, Answer) else None

    def stop(self) -> None:
        """End the process; the next question starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.stop()

    async def _comes(self, turn: _Turn) -> bool:
        """Wait until the process is free and nothing newer waits; False if the question is stale by then."""
        async with self._turns:
            self._waiting.append(turn)
            self._turns.notify_all()
            try:
                await self._turns.wait_for(lambda: self._is_stale(turn) or self._is_next(turn))
            finally:
                self._waiting.remove(turn)
            if self._is_stale(turn):
                return False
            self._running = turn
            return True

    def _is_next(self, turn: _Turn) -> bool:
        return self._running is None and turn == max(self._waiting, key=lambda each: each.number)

    def _is_stale(self, turn: _Turn) -> bool:
        return self._latest.get(turn.about) != turn.number

    def _give_up(self, turn: _Turn) -> None:
        if self._running == turn:
            self.stop()
