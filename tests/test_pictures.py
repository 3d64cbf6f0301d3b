"""What pictures show, where it stands, and that nothing from outside breaks out of them."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import networkx as nx
import pytest
from hypothesis import given, settings, strategies

from streamlint.files import SourceFiles
from streamlint.order.hb import HappensBefore, Verdict
from streamlint.pictures import as_json, mermaid, page, png, svg, text
from streamlint.pictures.arrows import arrows
from streamlint.pictures.build import Scene, picture, scene_of, whole_scene
from streamlint.pictures.colors import COLORS, Scheme, sheet
from streamlint.pictures.focus import MOST
from streamlint.pictures.lanes import key_of
from streamlint.pictures.layout import Card, Way, laid_out
from streamlint.pictures.model import Fault, How, Part, Picture
from streamlint.pictures.story import story
from streamlint.pictures.texts import CODE, SMALL, lines_of, measure, shortened, shortened_code
from streamlint.pictures.words import conditions, expression
from streamlint.run import engine
from streamlint.source import Span
from streamlint.trace import Access, Doubt, Mode, OpId, StreamKind, Trace
from tests.expectations import FIXTURES
from tests.random_traces import traces
from tests.test_synthesize import finding
from tests.traces import Program

NO_SOURCES = SourceFiles(Path("/nowhere"))


def racing(*, joined: bool = False) -> Trace:
    p = Program()
    a, b = p.stream(), p.stream()
    x, event = p.buffer(), p.event()
    p.launch(a, writes=x)
    p.record(a, event)
    if joined:
        p.wait(b, event)
    p.launch(b, reads=x)
    p.sync_device()
    return p.trace()


def scene(trace: Trace, earlier: int, later: int, buffer: int | None = 0) -> Scene:
    evidence = finding(trace, earlier, later, buffer).evidence
    assert evidence is not None
    return scene_of(evidence, NO_SOURCES)


def drawn(trace: Trace, earlier: int, later: int) -> Picture:
    return picture(scene(trace, earlier, later), "`b0` is read", "")


def whole(trace: Trace) -> Picture:
    return picture(whole_scene(trace, [], NO_SOURCES, everything=True), "title", "subtitle")


# What is shown


def test_the_pair_has_letters_and_an_edge_that_is_missing() -> None:
    shown = drawn(racing(), 0, 2)
    (missing,) = shown.missing
    first, second = shown.operations[missing.earlier], shown.operations[missing.later]
    assert (first.letter, first.effect, second.letter, second.effect) == (
        "A",
        "writes `b0`",
        "B",
        "reads `b0`",
    )
    assert {first.part, second.part} == {Part.RACING}
    assert [lane.name for lane in shown.lanes] == ["the host", "`s0`", "`s1`"]


def test_what_is_done_to_the_memory_of_the_finding_comes_first() -> None:
    """A card has no room for the rest of a long list."""
    p = Program()
    a, b = p.stream(), p.stream()
    x, *others = (p.buffer() for _ in range(4))
    p.launch(a, *(Access(each, Mode.READ) for each in others), writes=x)
    p.launch(b, reads=x)
    shown = drawn(p.trace(), 0, 1)
    assert shown.operations[0].effect == "writes `b0`; reads `b1`, `b2`, `b3`"


def test_operations_without_names_say_what_they_do() -> None:
    p = Program()
    a = p.stream()
    x = p.buffer()
    p.buffers[x] = replace(p.buffers[x], name="the result of the sum")
    p.launch(a, reads=x)
    p.launch(a)
    effects = [each.effect for each in whole(p.trace()).operations]
    assert effects == ["reads memory without a name", "work on the GPU"]


def test_streams_of_one_name_are_told_apart() -> None:
    """``for branch in builder.split(2)``: no pair is about them, so no message tells them apart."""
    p = Program()
    a, b = p.stream(), p.stream()
    p.streams[b] = replace(p.streams[b], name=p.streams[a].name, span=p.streams[a].span)
    p.launch(a, writes=p.buffer())
    p.launch(b, writes=p.buffer())
    kinds = [lane.kind for lane in whole(p.trace()).lanes]
    assert kinds == ["non-blocking stream, 1 of 2 of this name", "non-blocking stream, 2 of 2 of this name"]


def test_a_wait_that_orders_nothing_is_shown_with_the_pair_that_it_leaves_open() -> None:
    p = Program()
    a, b, x, event = p.stream(), p.stream(), p.buffer(), p.event()
    p.launch(a, writes=x)
    wait = p.wait(b, event)
    p.launch(b, reads=x)
    shown = drawn(p.trace(), wait, wait)
    assert [each.letter for each in shown.operations] == ["A", "B", "C"]
    assert shown.operations[1].effect == "waits for nothing: `e0` has not been recorded"
    assert [(each.earlier, each.later) for each in shown.missing] == [(0, 2)]


def test_what_waits_has_an_arrow_and_what_is_only_issued_later_another() -> None:
    shown = whole(racing(joined=True))
    hows = {(arrow.earlier, arrow.later): arrow.how for arrow in shown.arrows}
    assert hows == {(1, 2): How.WAITS, (3, 4): How.WAITS}
    p = Program()
    a, b = p.stream(), p.stream()
    p.launch(a)
    p.sync_stream(a)
    p.launch(b)
    assert [arrow.how for arrow in whole(p.trace()).arrows] == [How.WAITS, How.ISSUED]


def test_what_may_order_is_an_arrow_of_its_own() -> None:
    p = Program()
    a, b, x = p.stream(), p.stream(), p.buffer()
    p.launch(a, writes=x)
    p.barrier([a, b], Doubt.ESCAPE)
    p.launch(b, reads=x)
    assert How.MAYBE in {arrow.how for arrow in whole(p.trace()).arrows}
    shown = drawn(p.trace(), 0, 2)
    assert shown.missing[0].fault is Fault.DOUBTFUL
    assert "Nothing surely orders A and B." in text.render([shown])
    assert "not sure" in svg.render(shown)


def test_a_deadlock_is_a_circle_of_two() -> None:
    """The host holds what the callback waits for, and waits for the callback."""
    path = FIXTURES / "cuda_runtime" / "sl302_blocking_host_callback.py"
    (found,) = engine.analyze(FIXTURES.parent, [path], engine.Settings()).findings
    assert found.evidence is not None
    shown = picture(scene_of(found.evidence, SourceFiles(FIXTURES.parent)), "", "")
    assert [each.place for each in shown.operations if each.letter] == ["35", "47"]
    assert [each.fault for each in shown.missing] == [Fault.CIRCLE]
    assert "A and B wait for each other." in text.render([shown])
    assert svg.render(shown).count('class="missing-end"') == 2
    assert '<-. "deadlock" .->' in mermaid.render([shown])


def long_trace(passes: int) -> Trace:
    p = Program()
    a, b, x, event = p.stream(), p.stream(), p.buffer(), p.event()
    others = [p.buffer() for _ in range(passes)]
    p.launch(a, writes=x)
    p.record(a, event)
    for other in others:
        p.launch(a, writes=other)
        p.launch(b, reads=other)
    p.wait(b, event)
    p.launch(a, writes=x)
    for other in others:
        p.host(reads=other)
    p.launch(b, reads=x)
    return p.trace()


def test_of_a_long_trace_the_picture_has_what_matters_to_the_pair() -> None:
    trace = long_trace(200)
    write, read = len(trace.ops) - 202, len(trace.ops) - 1
    shown = drawn(trace, write, read)
    assert len(shown.operations) <= MOST
    effects = [each.effect for each in shown.operations]
    assert effects == [
        "writes `b0`",
        "records `e0`",
        "waits for `e0`, recorded in line 2",
        "writes `b0`",
        "reads `b0`",
    ]
    assert shown.notes == (f"{len(trace.ops) - 5} operations are left out.",)


@settings(max_examples=40, deadline=None)
@given(traces())
def test_arrows_and_lanes_say_what_is_ordered_and_nothing_else(trace: Trace) -> None:
    hb = HappensBefore(trace)
    keys = [key_of(op) for op in trace.ops]
    lanes = [sorted(set(keys)).index(key) for key in keys]
    numbers = [OpId(number) for number in range(len(trace.ops))]
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(numbers)
    for lane in set(lanes):
        graph.add_edges_from(itertools.pairwise(n for n in numbers if lanes[n] == lane))
    shown = arrows(hb, numbers, lanes, frozenset())
    graph.add_edges_from((each.earlier, each.later) for each in shown if each.how is not How.MAYBE)
    for earlier, later in itertools.combinations(numbers, 2):
        ordered = hb.ordered(earlier, later).verdict is Verdict.YES
        assert nx.has_path(graph, earlier, later) == ordered, (earlier, later)


# Where it stands


def overlap(one: Card, other: Card) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


def crosses(way: Way, card: Card) -> bool:
    """Whether the part of a line that goes down runs through a card."""
    low, high = sorted((way.y1, way.y2))
    return card.x < way.x < card.x + card.width and low < card.y + card.height and card.y < high


@settings(max_examples=40, deadline=None)
@given(traces())
def test_cards_do_not_overlap_and_lines_go_down_between_them(trace: Trace) -> None:
    shown = whole(trace)
    layout = laid_out(shown, 0)
    for one, other in itertools.combinations(layout.cards, 2):
        assert not overlap(one, other)
    for way in (*layout.arrows, *layout.missing):
        assert not any(crosses(way, card) for card in layout.cards)
        assert 0 < way.x < layout.width
    for card in layout.cards:
        assert card.x + card.width <= layout.width
        assert card.y + card.height <= layout.bottom


def test_long_expressions_lose_their_middle() -> None:
    code = "self.batch.copy_(self.staging[self.slot], non_blocking=True)"
    short = shortened(code, CODE, 200)
    head, tail = short.split("…")
    assert measure(short, CODE) <= 200
    assert code.startswith(head)
    assert code.endswith(tail)
    assert head
    assert tail
    assert shortened("x", CODE, 200) == "x"


@pytest.mark.parametrize(
    ("code", "short"),
    [
        ("cudart.cudaMemsetAsync(pointer, 7, SIZE, stream)", "cudart.cudaMemsetAsync(pointer, 7, SIZE…)"),
        (
            'reduced[:, self.first_position:self.last].to("cpu", non_blocking=True)',
            'reduced[:,…].to("cpu", non_blocking=True)',
        ),
        ("torch.nn.functional.scaled_dot_product_attention(query, key)", "….scaled_dot_product_attention(…)"),
        ("a_name + another_name_that_is_rather_long.mean()", "a_name + another_name_th…ther_long.mean()"),
        ("x" * 60, f"{'x' * 24}…{'x' * 16}"),
    ],
)
def test_long_expressions_lose_what_they_are_called_with_first(code: str, short: str) -> None:
    assert shortened_code(code, 316) == short
    assert measure(short, CODE) <= 316


@given(strategies.text(alphabet="ab.([{}])\"' ", max_size=80))
def test_any_text_becomes_as_short(code: str) -> None:
    assert measure(shortened_code(code, 60), CODE) <= 60


def test_texts_are_broken_between_words() -> None:
    lines = lines_of("reads `a_long_name_of_memory` and writes `another_name` and many more", SMALL, 240, 2)
    assert len(lines) == 2
    assert "".join(piece.text for piece in lines[0]).startswith("reads a_long")
    assert lines[1][-1].text.endswith("…")
    assert any(piece.code for piece in lines[0])


def test_wide_characters_count_twice() -> None:
    assert measure("流", CODE) == measure("xx", CODE)


# Notations

HOSTILE = "</title></svg><script>alert(1)</script>\"'&<b>\x00\x1b[31m\u202e\ufffe"


def hostile() -> Picture:
    shown = drawn(racing(), 0, 2)
    lanes = tuple(replace(lane, name=HOSTILE, kind=HOSTILE) for lane in shown.lanes)
    operations = tuple(
        replace(each, code=HOSTILE, effect=HOSTILE, place=HOSTILE, hint=HOSTILE) for each in shown.operations
    )
    return replace(
        shown, title=HOSTILE, subtitle=HOSTILE, lanes=lanes, operations=operations, notes=(HOSTILE,)
    )


def test_names_from_the_source_stay_text() -> None:
    for written in (svg.render(hostile()), svg.element(hostile())):
        root = ET.fromstring(written)  # noqa: S314  our own text
        assert not [each for each in root.iter() if each.tag.endswith("script")]
        assert "<script" not in written
        assert "\x00" not in written
        assert "\u202e" not in written
    whole_page = page.of_pictures(HOSTILE, [hostile()])
    assert "<script" not in whole_page
    assert "\x1b" not in whole_page
    assert "<script" not in mermaid.render([hostile()])


def test_svg_is_well_formed_and_needs_nothing_else() -> None:
    written = svg.render(drawn(racing(), 0, 2))
    root = ET.fromstring(written)  # noqa: S314  our own text
    names = [each.tag.rpartition("}")[2] for each in root.iter()]
    assert "image" not in names
    assert "url(" not in written
    assert "prefers-color-scheme: dark" in written
    hints = [each.text for each in root.iter() if each.tag.endswith("title")]
    assert any("example.py:1:1" in str(hint) for hint in hints)


def test_the_pair_is_marked_without_colour_too() -> None:
    written = svg.render(drawn(racing(), 0, 2))
    assert "no order" in written
    assert re.search(r"\.missing \{ stroke-width: [\d.]+; stroke-dasharray", sheet(Scheme.LIGHT))
    classes = {how: f".picture .{name} {{" for how, name in svg.CLASSES.items()}
    assert len({sheet(Scheme.LIGHT).partition(rule)[2].partition("}")[0] for rule in classes.values()}) == 3


@pytest.mark.parametrize("scheme", [Scheme.LIGHT, Scheme.DARK])
@pytest.mark.parametrize(
    ("text_color", "ground"),
    [
        ("ink", "page"),
        ("ink", "card"),
        ("ink", "head"),
        ("ink", "red_soft"),
        ("muted", "page"),
        ("muted", "head"),
        ("red_text", "red_soft"),
        ("on_red", "red"),
    ],
)
def test_text_has_contrast(scheme: Scheme, text_color: str, ground: str) -> None:
    colors = COLORS[scheme]
    light, dark = sorted((luminance(colors[text_color]), luminance(colors[ground])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


@pytest.mark.parametrize("scheme", [Scheme.LIGHT, Scheme.DARK])
@pytest.mark.parametrize("line", ["blue", "grey", "red"])
def test_lines_can_be_seen(scheme: Scheme, line: str) -> None:
    colors = COLORS[scheme]
    light, dark = sorted((luminance(colors[line]), luminance(colors["page"])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 3


def luminance(color: str) -> float:
    """By WCAG 2.2."""
    shares = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_json_has_all_that_is_drawn() -> None:
    (data,) = json.loads(as_json.render([drawn(racing(), 0, 2)]))["pictures"]
    assert [each["code"] for each in data["operations"]][:1] == ["kernel"]
    assert data["missing"] == [{"earlier": 0, "later": 2, "fault": "no order"}]
    assert {arrow["how"] for arrow in data["arrows"]} <= {how.value for how in How}


def test_mermaid_links_and_styles() -> None:
    written = mermaid.render([drawn(racing(), 0, 2)])
    links = [line for line in written.splitlines() if re.match(r"\s+op\d+ [-=]", line)]
    assert '-. "no order" .-x' in links[-1]
    assert f"linkStyle {len(links) - 1} " in written
    assert written.count("subgraph") == len(re.findall(r"^  end$", written, re.MULTILINE))


def test_rows_of_text_say_what_they_come_after() -> None:
    rows = text.render([drawn(racing(), 0, 2)]).splitlines()
    assert any(row.startswith("A  1  `s0`") for row in rows)
    assert "Nothing orders A and B." in rows


def test_png_is_drawn_or_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    from streamlint.errors import UserError

    with monkeypatch.context() as patch:
        patch.setitem(__import__("sys").modules, "resvg_py", None)
        with pytest.raises(UserError, match="extra `png`"):
            png.render(drawn(racing(), 0, 2), Scheme.LIGHT)
    pytest.importorskip("resvg_py")
    image = png.render(drawn(racing(), 0, 2), Scheme.DARK)
    assert image.startswith(b"\x89PNG\r\n\x1a\n")


# In sentences


def told(trace: Trace, earlier: int, later: int) -> tuple[str, ...]:
    shown = scene(trace, earlier, later)
    return story(shown, finding(trace, earlier, later)).steps


def test_a_story_of_a_read_that_comes_too_early() -> None:
    steps = told(racing(), 0, 2)
    assert steps[0] == "Line 1: A is queued on `s0`. It has not run yet: the stream is busy."
    assert steps[-2] == "Line 3: B is queued on `s1`, which has nothing to wait for: B runs."
    assert steps[-1] == "B has read `b0` as it was before A, or half of it. A runs too late."


def test_a_story_of_a_wait_that_sees_too_early_a_record() -> None:
    p = Program()
    a, b, x, event = p.stream(), p.stream(), p.buffer(), p.event()
    p.record(a, event)
    write = p.launch(a, writes=x)
    p.wait(b, event)
    read = p.launch(b, writes=x)
    steps = told(p.trace(), write, read)
    assert any(step.endswith("That does not cover A.") for step in steps)
    assert steps[-1].endswith("A has the last word.")


def test_a_story_of_the_host_that_overwrites_what_a_copy_reads() -> None:
    p = Program()
    a, x, y = p.stream(StreamKind.CURRENT), p.buffer(), p.buffer()
    copy = p.copy(a, x, y)
    write = p.host(writes=x)
    steps = told(p.trace(), copy, write)
    assert "and does B at once" in steps[-2]


def test_an_expression_of_several_lines_is_shown_in_one(tmp_path: Path) -> None:
    lines = [
        "x = torch.zeros(",
        "    (rows, columns),",
        "    device=device,",
        ")",
        "y = (x",
        "     .sum())",
        "",
    ]
    (tmp_path / "example.py").write_text("\n".join(lines), "utf-8")
    sources = SourceFiles(tmp_path)
    assert (
        expression(Span("example.py", 1, 4, 4, 1), sources) == "torch.zeros((rows, columns), device=device)"
    )
    assert expression(Span("example.py", 5, 5, 6, 11), sources) == "x.sum()"
    assert expression(Span("example.py", 7, 0, 9, 1), sources) == ""


def test_conditions_are_told_without_what_tells_values_apart() -> None:
    path = ("next(0:loader)@17:15#0.0.2 is None is false", "len(1:x) is 2", "len(1:x) is 2")
    assert conditions(replace(racing(), path=path)) == ["`next(loader) is None` is false", "len(x) is 2"]
