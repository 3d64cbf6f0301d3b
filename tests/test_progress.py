"""The line that tells how far a run is."""

from __future__ import annotations

import io
import time

from streamlint.run.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def screen(self) -> str:
        """The line as it stands, without what was written over."""
        cells: list[str] = []
        for part in self.getvalue().split("\r"):
            cells[: len(part)] = part
        return "".join(cells).rstrip()


def wait_for(terminal: Terminal, text: str) -> None:
    end = time.monotonic() + 60
    while text not in terminal.screen():
        assert time.monotonic() < end, terminal.getvalue()
        time.sleep(0.005)


def test_a_terminal_shows_how_far_a_run_is_and_is_left_clean() -> None:
    terminal = Terminal()
    with Progress(terminal, patience=0, step=0.001) as progress:
        progress(995, 1200)
        wait_for(terminal, "995 of 1200 files, 0 s")
        progress(5, 12)
        wait_for(terminal, "5 of 12 files, 0 s")
    assert terminal.screen() == ""
    assert terminal.getvalue().endswith("\r")


def test_a_short_run_and_a_pipe_show_nothing() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    with Progress(terminal) as progress:
        progress(1, 12)
    with Progress(pipe, patience=0, step=0.001) as progress:
        progress(1, 12)
        time.sleep(0.02)
    with Progress(None) as progress:
        progress(1, 12)
    assert (terminal.getvalue(), pipe.getvalue()) == ("", "")


def test_a_terminal_that_goes_away_is_no_error() -> None:
    terminal = Terminal()
    with Progress(terminal, patience=0, step=0.001) as progress:
        progress(1, 12)
        wait_for(terminal, "1 of 12")
        terminal.close()
