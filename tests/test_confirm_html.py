"""The report of ``streamlint confirm --html``, and the pictures in it."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from streamlint import cli, confirm
from streamlint.confirm import command
from streamlint.confirm.plan.plans import Plan
from streamlint.confirm.report import html
from streamlint.confirm.report.timeline import timeline
from streamlint.confirm.reproduce.slicing import slice_of
from streamlint.confirm.run.runner import Confirmation
from streamlint.confirm.text.instrument import Place
from streamlint.confirm.verdict import Decision, Difference, Verdict
from streamlint.files import SourceFiles
from streamlint.finding import leading
from streamlint.pictures.layout import laid_out
from streamlint.pictures.model import Operation, Part, Picture
from streamlint.run.engine import Settings, analyze
from streamlint.witness import ByReuse, ByValue
from tests.test_pictures import overlap
from tests.test_synthesize import finding
from tests.traces import Program

if TYPE_CHECKING:
    from streamlint.finding import Finding

SOURCE = """\
import torch


def races():
    side = torch.cuda.Stream()
    x = torch.zeros(4, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(7.0)
    return x.sum().item()  # <&>
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    path = tmp_path / "source.py"
    path.write_text(SOURCE, "utf-8")
    return path


def the_finding(source: Path) -> Finding:
    (found,) = leading(analyze(source.parent, [source], Settings()).findings)
    return found


def shown(
    source: Path, verdict: Verdict, mark: str = "", difference: Difference | None = None
) -> Confirmation:
    plan = Plan(source, source.parent, "races", Place(9), Place(10), "SL101", mark)
    return Confirmation(plan, Decision(verdict, "the reason <why>", difference), {"GPU": "one"})


class Checker(HTMLParser):
    """Every element that needs it is closed, in order; nothing is loaded."""

    VOID = frozenset({"meta", "br", "line", "rect", "circle", "path"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        assert not names & {"src", "onclick", "onload"}
        assert tag not in ("script", "link", "img", "iframe")
        targets = [value for name, value in attrs if name == "href"]
        assert all(str(target).startswith("#") for target in targets)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def checked(page: str) -> str:
    """The text of a page that is well formed and needs nothing else."""
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert "http" not in page
    assert "@import" not in page
    assert "url(" not in page
    return checker.text


def test_a_confirmed_finding(source: Path) -> None:
    about = the_finding(source)
    wrong = Difference("[0]", "7.0", "<0.0>")
    page = html.page([shown(source, Verdict.CONFIRMED, about.fingerprint, wrong)], [about], 200.0)
    text = checked(page)
    assert "1 confirmed" in text
    told = "x is read on the current stream while side may still be writing it (and 1 more access)"
    assert f"{told} (certain)" in text
    assert "The reason <why>." in text
    assert "serialized7.0" in text
    assert "<0.0>" in text
    assert "result[0]" in text
    assert "A    9         x.fill_(7.0)" in text
    assert "B   10     return x.sum().item()  # <&>" in text
    assert "up to 200 ms" in text
    assert "GPU one" in text
    assert about.fingerprint in text
    assert "the run did not show it" not in text


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_has_words_and_a_colour(source: Path, verdict: Verdict) -> None:
    about = the_finding(source)
    page = html.page([shown(source, verdict, about.fingerprint)], [about], 200.0)
    assert f"1 {verdict.value}" in checked(page)
    did_not_show = verdict not in (Verdict.CONFIRMED, Verdict.UNORDERED)
    assert ("the run did not show it" in page) == did_not_show


def test_a_line_that_the_user_named_has_no_picture(source: Path) -> None:
    page = html.page([shown(source, Verdict.ORDERED)], [], 200.0)
    assert "<svg" not in page
    assert "x.fill_" in checked(page)


def test_a_source_that_is_gone(source: Path) -> None:
    about = the_finding(source)
    source.unlink()
    assert "<pre" not in html.page([shown(source, Verdict.CONFIRMED, about.fingerprint)], [about], 200.0)


def test_nothing_to_confirm() -> None:
    assert "There was nothing to confirm." in checked(html.page([], [], 200.0))


def test_places_far_apart_are_shown_in_two_pieces(source: Path) -> None:
    source.write_text("\n".join(f"line_{n}" for n in range(1, 101)), "utf-8")
    plan = replace(shown(source, Verdict.ORDERED).plan, earlier=Place(10), later=Place(90))
    text = checked(html.page([Confirmation(plan, Decision(Verdict.ORDERED, "why"))], [], 200.0))
    assert "A   10 line_10" in text
    assert "B   90 line_90" in text
    assert re.findall(r"line_(\d+)", text) == [*map(str, range(7, 14)), *map(str, range(87, 94))]


# The picture


def racing() -> tuple[Program, Finding]:
    p = Program()
    a, b, x, done = p.stream(), p.stream(), p.buffer(), p.event()
    p.record(a, done)
    write = p.launch(a, writes=x)
    p.wait(b, done)
    read = p.launch(b, reads=x)
    return p, finding(p.trace(), write, read)


def the_timeline(about: Finding) -> Picture:
    return timeline(slice_of(about), SourceFiles(Path("/nowhere")), "gate <1>")


def lettered(drawn: Picture, letter: str) -> Operation:
    return next(each for each in drawn.operations if each.letter == letter)


def test_the_later_operation_runs_while_the_gate_holds_and_the_earlier_one_after_it() -> None:
    _, about = racing()
    drawn = the_timeline(about)
    earlier, later = lettered(drawn, "A"), lettered(drawn, "B")
    (gate,) = (each for each in drawn.operations if each.part is Part.HELD)
    assert gate.lane == earlier.lane != later.lane
    assert gate.row <= later.row <= gate.last < earlier.row
    assert [lane.name for lane in drawn.lanes] == ["`s0`", "`s1`"]
    assert [(each.earlier, each.later) for each in drawn.arrows] == [(0, 2)]


def test_what_waits_for_the_earlier_operation_comes_after_it() -> None:
    p = Program()
    a, between, b, x = p.stream(), p.stream(), p.stream(), p.buffer()
    early, late = p.event(), p.event()
    second = p.record(between, early)
    write = p.launch(a, writes=x)
    first = p.record(a, late)
    middle = p.wait(between, late)
    p.wait(b, early)
    read = p.launch(b, reads=x)
    piece = slice_of(finding(p.trace(), write, read))
    drawn = timeline(piece, SourceFiles(Path("/nowhere")), "gate")
    rows = [drawn.operations[piece.ops.index(op)].row for op in (second, read, write, first, middle)]
    assert rows == sorted(rows)


def test_a_wait_that_orders_nothing_says_so() -> None:
    p = Program()
    a, b, x = p.stream(), p.stream(), p.buffer()
    write = p.launch(a, writes=x)
    p.wait(b, p.event())
    read = p.launch(b, reads=x)
    drawn = the_timeline(finding(p.trace(), write, read))
    assert "waits for nothing: `e0` has not been recorded" in [each.effect for each in drawn.operations]
    assert drawn.arrows == ()


def test_no_two_cards_overlap_behind_a_gate() -> None:
    _, about = racing()
    cards = laid_out(the_timeline(about), 0).cards
    assert len(cards) == 5
    for one, other in itertools.combinations(cards, 2):
        assert not overlap(one, other)


def test_memory_that_is_given_back_is_not_drawn_behind_a_gate(source: Path) -> None:
    found = the_finding(source)
    done = shown(source, Verdict.CONFIRMED, found.fingerprint, Difference("[0]", "3", "165"))
    for witness, pictures, label in (
        (ByValue(), 1, "with the earlier operation held back"),
        (ByReuse(stale=True), 0, "with the memory handed out again"),
    ):
        text = html.page([replace(done, plan=replace(done.plan, witness=witness))], [found], 200)
        assert (text.count("<svg"), label in text) == (pictures, True)


# The command


def test_the_command_writes_the_report(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "Driver", lambda: SimpleNamespace(device_count=lambda: 1))
    done = [shown(source, Verdict.CONFIRMED, the_finding(source).fingerprint)]
    monkeypatch.setattr(command, "confirm_all", lambda *_: done)
    report = source.parent / "report.html"
    assert confirm.main([str(source), "--html", str(report)]) == 1
    assert "<svg" in report.read_text("utf-8")
    assert "1 confirmed" in capsys.readouterr().out
    assert cli.main(["confirm", str(source), "--html", str(source.parent)]) == 2
    assert "cannot write" in capsys.readouterr().err
