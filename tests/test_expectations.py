"""The expectation harness itself: it must fail whenever analyzer and fixture differ, in either direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence, Finding, Severity
from streamlint.source import Span
from tests.expectations import (
    AlarmIsGone,
    Expectation,
    ExpectationError,
    Kind,
    Mismatch,
    Missing,
    MissIsFound,
    Unexpected,
    compare,
    count,
    explain,
    main,
    parse,
)

if TYPE_CHECKING:
    from pathlib import Path


def found(
    line: int,
    code: str = "SL101",
    *,
    column: int = 1,
    message: str = "'x' is read while it may still be written",
    confidence: Confidence = Confidence.CERTAIN,
) -> Finding:
    return Finding(
        code=code,
        name="unordered-read",
        message=message,
        help="",
        confidence=confidence,
        severity=Severity.ERROR,
        primary=Span("f.py", line, column - 1, line, column + 5),
        label="",
        function="f",
    )


def difference(source: str, *findings: Finding) -> tuple[Mismatch, ...]:
    return compare(parse(source), findings)


class TestParse:
    def test_code_column_and_text(self) -> None:
        assert parse('x = 1\ny = x  # error: 5 [SL101] "may be"\n') == (
            Expectation(Kind.ERROR, "SL101", 2, 5, "may be"),
        )

    def test_alone_above_the_line(self) -> None:
        source = "def f():\n    # error: [SL101]\n    # todo-error: [SL203]\n    return 1\n"
        assert parse(source) == (
            Expectation(Kind.ERROR, "SL101", 4),
            Expectation(Kind.TODO_ERROR, "SL203", 4),
        )

    def test_above_and_behind_one_line(self) -> None:
        assert {one.code for one in parse("# error: [SL101]\nx = 1  # error: [SL202]\n")} == {
            "SL101",
            "SL202",
        }

    def test_above_the_first_line_of_a_block(self) -> None:
        (one,) = parse("def f():\n    # error: [SL101]\n    if f:\n        pass\n")
        assert one.line == 3

    def test_above_a_line_that_dedents(self) -> None:
        (one,) = parse("def f():\n    if f:\n        pass\n    # error: [SL101]\n    return 1\n")
        assert one.line == 5

    def test_stacked_behind_one_line(self) -> None:
        source = 'x = 1  # error: [SL401] "a"  # error: [SL405]  # two findings\n'
        assert [(one.code, one.text) for one in parse(source)] == [("SL401", "a"), ("SL405", None)]

    @pytest.mark.parametrize("kind", list(Kind))
    def test_every_kind(self, kind: Kind) -> None:
        (one,) = parse(f"x = 1  # {kind.value}: [SL101]\n")
        assert one.kind is kind

    def test_strings_and_other_comments_are_no_expectations(self) -> None:
        assert parse('x = "# error: [SL101]"  # an error: nothing\n# errors happen\n') == ()

    @pytest.mark.parametrize(
        "comment",
        [
            "# error: SL101",
            "# error: [SL1]",
            "# error: 0 [SL101]",
            "# error: [SL101] text",
            "# error: [SL101] # error: SL102",
            "# todo-ok: later",
            "# possible:",
        ],
    )
    def test_a_mistyped_expectation_raises(self, comment: str) -> None:
        with pytest.raises(ExpectationError, match="line 1"):
            parse(f"x = 1  {comment}\n")

    @pytest.mark.parametrize("source", ["x = 1\n# error: [SL101]\n", "# error: [SL101]\n\nx = 1\n"])
    def test_nothing_right_below_raises(self, source: str) -> None:
        with pytest.raises(ExpectationError, match="no code right below"):
            parse(source)


class TestCompare:
    def test_agreement(self) -> None:
        assert difference("x = 1  # error: [SL101]\n", found(1)) == ()

    def test_an_expectation_without_a_finding(self) -> None:
        (mismatch,) = difference("x = 1  # error: [SL101]\n")
        assert isinstance(mismatch, Missing)

    def test_a_finding_without_an_expectation(self) -> None:
        (mismatch,) = difference("x = 1\n", found(1))
        assert isinstance(mismatch, Unexpected)

    @pytest.mark.parametrize(
        "other",
        [found(2), found(1, "SL102"), found(1, message="'y'"), found(1, column=3)],
        ids=["line", "code", "text", "column"],
    )
    def test_a_finding_that_differs_counts_twice(self, other: Finding) -> None:
        kinds = [type(one) for one in difference("x = 1  # error: 1 [SL101] \"'x'\"\ny = 1\n", other)]
        assert sorted(kinds, key=str) == sorted([Missing, Unexpected], key=str)

    def test_one_expectation_is_one_finding(self) -> None:
        (mismatch,) = difference("x = 1  # error: [SL101]\n", found(1), found(1, message="another"))
        assert isinstance(mismatch, Unexpected)

    def test_stacked_expectations_are_as_many_findings(self) -> None:
        source = "x = 1  # error: [SL101]  # error: [SL101]\n"
        assert difference(source, found(1), found(1, message="another")) == ()
        (mismatch,) = difference(source, found(1))
        assert isinstance(mismatch, Missing)

    def test_a_loose_expectation_leaves_the_finding_that_a_strict_one_needs(self) -> None:
        source = 'x = 1  # error: [SL101]  # error: [SL101] "needle"\n'
        assert difference(source, found(1, message="a needle"), found(1, message="hay")) == ()
        assert difference(source, found(1, message="hay"), found(1, message="a needle")) == ()

    def test_possible_findings_are_ignored_unless_asked_for(self) -> None:
        doubtful = found(1, confidence=Confidence.POSSIBLE)
        assert difference("x = 1\n", doubtful) == ()
        assert difference("x = 1  # possible: [SL101]\n", doubtful) == ()
        (mismatch,) = difference("x = 1  # error: [SL101]\n", doubtful)
        assert isinstance(mismatch, Missing)

    def test_possible_means_possible(self) -> None:
        likely = found(1, confidence=Confidence.LIKELY)
        assert len(difference("x = 1  # possible: [SL101]\n", likely)) == 2
        assert difference("x = 1  # error: [SL101]\n", likely) == ()

    def test_a_known_miss_fails_once_it_is_found(self) -> None:
        source = "x = 1  # todo-error: [SL203]\n"
        assert difference(source) == ()
        (mismatch,) = difference(source, found(1, "SL203"))
        assert isinstance(mismatch, MissIsFound)

    def test_a_known_false_alarm_fails_once_it_is_gone(self) -> None:
        source = "x = 1  # todo-ok: [SL101]\n"
        assert difference(source, found(1)) == ()
        (mismatch,) = difference(source)
        assert isinstance(mismatch, AlarmIsGone)

    def test_a_known_miss_does_not_take_the_finding_of_an_error(self) -> None:
        assert difference("x = 1  # todo-error: [SL101]  # error: [SL101]\n", found(1)) == ()

    def test_mismatches_come_in_line_order(self) -> None:
        source = "a = 1\nb = 1  # error: [SL101]\nc = 1\n"
        lines = [type(one).__name__ for one in difference(source, found(3), found(1))]
        assert lines == ["Unexpected", "Missing", "Unexpected"]


def test_the_explanation_shows_the_line_and_what_was_found_there() -> None:
    source = "y = x.sum()  # error: [SL101]\nz = 1\n"
    findings = [found(1, "SL102", column=5, message="'x' is overwritten")]
    text = explain("f.py", source, compare(parse(source), findings), findings)
    assert "f.py: 2 mismatch(es)" in text
    assert "line 1: expected error [SL101], not found" in text
    assert "| y = x.sum()  # error: [SL101]" in text
    assert "unexpected 5 [SL102] (certain) 'x' is overwritten" in text


def test_the_explanation_says_how_to_write_down_progress() -> None:
    source = "y = 1  # todo-error: [SL203]\nz = 1  # todo-ok: [SL101]\n"
    text = explain("f.py", source, difference(source, found(1, "SL203")), [])
    assert "write `error` instead of `todo-error`" in text
    assert "remove its `todo-ok`" in text


def test_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sl101_reads.py"
    file.write_text(
        "def a_bad():\n    return 1  # error: [SL101]  # todo-error: [SL905]\n\n\ndef a_ok():\n    return 1\n"
    )
    table = count([file])
    assert (table["SL101"]["bad"], table["SL101"]["ok"], table["SL101"]["error"]) == (1, 1, 1)
    assert table["SL905"]["todo-error"] == 1
    assert main(["--count", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[:4] == ["total", "1", "1", "1"]
