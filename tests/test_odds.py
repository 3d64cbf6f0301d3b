"""What stands in several files, and what CUDA refuses at the first run, is possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint import Confidence, check_paths

if TYPE_CHECKING:
    from pathlib import Path

HELPER = """
import torch


def doubled(x, side):
    with torch.cuda.stream(side):
        return x * 2


def raced(x, side):
    y = x + 1
    with torch.cuda.stream(side):
        z = y * 2
    torch.cuda.current_stream().wait_stream(side)
    return z
"""
PROGRAM = """
import torch
from helper import doubled, raced

N = 1 << 20


def apart():
    side = torch.cuda.Stream()
    x = torch.ones(N, device="cuda") + 1
    y = doubled(x, side)
    torch.cuda.synchronize()
    return y.sum().item()


def back():
    side = torch.cuda.Stream()
    x = torch.ones(N, device="cuda") + 1
    side.wait_stream(torch.cuda.current_stream())
    y = doubled(x, side)
    return y.sum().item()


def together():
    side = torch.cuda.Stream()
    z = raced(torch.ones(N, device="cuda"), side)
    torch.cuda.synchronize()
    return z.sum().item()
"""


def _found(folder: Path, code: str) -> dict[tuple[str, int], Confidence]:
    report = check_paths([folder], min_confidence="possible", jobs=1)
    assert not report.errors
    return {
        (one.function, len({one.primary.path, *(other.span.path for other in one.related)})): one.confidence
        for one in report.findings
        if one.code == code
    }


WRITER = """
import torch


class Pool:
    def __init__(self, n):
        self.side = torch.cuda.Stream()
        self.pages = torch.zeros(n, device="cuda")

    def write(self, rows):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.pages.copy_(rows)
            rows.record_stream(self.side)
"""
KEEPER = """
import torch
from pool import Pool


class Keeper:
    def __init__(self, n):
        self.pool = Pool(n)

    def put(self, rows):
        self.pool.write(rows * 2)

    def take(self):
        return self.pool.pages.sum().item()

    def lane(self):
        return torch.cuda.current_stream()
"""


def test_what_two_files_do_together_in_several_calls_is_possible(tmp_path: Path) -> None:
    """What orders two calls may stand in a third file."""
    (tmp_path / "pool.py").write_text(WRITER, encoding="utf-8")
    (tmp_path / "keeper.py").write_text(KEEPER, encoding="utf-8")
    assert set(_found(tmp_path, "SL101").values()) == {Confidence.POSSIBLE}
    in_one = KEEPER.replace("self.pool.write(rows * 2)", "self.pool.write(rows * 2)\n        self.take()")
    (tmp_path / "keeper.py").write_text(in_one, encoding="utf-8")
    assert Confidence.LIKELY in _found(tmp_path, "SL101").values()


def test_what_a_call_gives_and_is_used_too_early_behind_it_is_not_far(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER, encoding="utf-8")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    assert _found(tmp_path, "SL101")["back", 2] is Confidence.CERTAIN
    unseen = "import other\n" + PROGRAM.replace("    return y.sum", "    other.finish()\n    return y.sum")
    (tmp_path / "program.py").write_text(unseen, encoding="utf-8")
    assert _found(tmp_path, "SL101")["back", 2] is Confidence.POSSIBLE


def test_what_is_handed_down_and_used_too_early_in_that_call_is_not_far(tmp_path: Path) -> None:
    """All that could order the two stands between them, and is seen."""
    (tmp_path / "helper.py").write_text(HELPER, encoding="utf-8")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    assert _found(tmp_path, "SL101")["doubled", 2] is Confidence.CERTAIN
    unseen = "import other\n" + PROGRAM.replace("    y = doubled", "    other.finish()\n    y = doubled")
    (tmp_path / "program.py").write_text(unseen, encoding="utf-8")
    assert _found(tmp_path, "SL101")["doubled", 2] is Confidence.POSSIBLE


def test_a_helper_of_another_file_that_does_both_is_as_sure_as_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER, encoding="utf-8")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    found = [sure for (function, _), sure in _found(tmp_path, "SL101").items() if function == "raced"]
    assert max(one.rank for one in found) >= Confidence.LIKELY.rank


LANES = """
import torch


def current():
    return torch.cuda.current_stream()


def shown(rows):
    return rows.shape
"""
FALLING_OFF = """
import torch
import lanes

copies = torch.cuda.Stream()
done = torch.cuda.Event()


def begin(page: torch.Tensor, host: torch.Tensor):
    with torch.cuda.stream(copies):
        host.copy_(page, non_blocking=True)
        page.data = host
    done.record(copies)


def offload(page: torch.Tensor, host: torch.Tensor):
    copies.wait_stream(lanes.current())
    begin(page, host)


def swap(page: torch.Tensor, host: torch.Tensor):
    copies.wait_stream(torch.cuda.current_stream())
    begin(page, host)
    lanes.shown(page)


class Filler:
    def __init__(self):
        self.side = torch.cuda.Stream()

    def _fill(self, page):
        self.side.wait_stream(lanes.current())
        with torch.cuda.stream(self.side):
            page.fill_(1.0)

    def fill(self, page: torch.Tensor):
        return self._fill(page)
"""


def test_a_call_that_comes_to_its_end_hands_out_nothing_where_another_file_returned(tmp_path: Path) -> None:
    (tmp_path / "lanes.py").write_text(LANES, encoding="utf-8")
    (tmp_path / "program.py").write_text(FALLING_OFF, encoding="utf-8")
    gone, filled = _found(tmp_path, "SL401"), _found(tmp_path, "SL101")
    assert gone["begin", 1].rank >= Confidence.LIKELY.rank
    assert filled["Filler._fill", 1].rank >= Confidence.LIKELY.rank


LAYERS = """
def scaled(x, weight):
    return x * weight


class Mlp:
    def __init__(self, weight):
        self.weight = weight

    def __call__(self, x):
        return scaled(x, self.weight).relu()
"""
LAYER = """
import torch
from layers import Mlp

N = 1 << 20


def beside(side, mlp):
    x = torch.ones(N, device="cuda") * 2
    {fork}
    with torch.cuda.stream(side):
        y = mlp(x)
    torch.cuda.current_stream().wait_stream(side)
    return y


def step():
    mlp = Mlp(torch.ones(N, device="cuda"))
    torch.cuda.synchronize()
    y = beside(torch.cuda.Stream(), mlp)
    torch.cuda.synchronize()
    return y.sum().item()
"""


def test_what_helpers_that_name_no_stream_do_stands_where_they_are_called(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(LAYERS, encoding="utf-8")
    program = tmp_path / "program.py"
    program.write_text(LAYER.format(fork="pass"), encoding="utf-8")
    found = _found(tmp_path, "SL101")
    assert {sure for (_, files), sure in found.items() if files == 2} == {Confidence.CERTAIN}
    program.write_text(LAYER.format(fork="side.wait_stream(torch.cuda.current_stream())"), encoding="utf-8")
    assert not _found(tmp_path, "SL101")


POOL = """
import torch


class Pool:
    def __init__(self):
        self.pages = [torch.zeros(1 << 20, device="cuda") for _ in range(4)]

    def write(self, slot, rows):
        self.pages[slot].copy_(rows)

    def read(self, slot):
        return self.pages[slot] * 2
"""
POOL_USER = """
import torch
from pool import Pool


def refill(rows):
    pool = Pool()
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = pool.read(0)
    pool.write(0, torch.ones(1 << 20, device="cuda"))
    torch.cuda.synchronize()
    return y
"""


def test_memory_of_the_other_file_is_its_business_but_for_one_call_that_is_seen(tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(POOL, encoding="utf-8")
    (tmp_path / "program.py").write_text(POOL_USER, encoding="utf-8")
    assert set(_found(tmp_path, "SL102").values()) == {Confidence.CERTAIN}
    unseen = "import other\n" + POOL_USER.replace("    pool.write", "    other.wait(pool)\n    pool.write")
    (tmp_path / "program.py").write_text(unseen, encoding="utf-8")
    assert set(_found(tmp_path, "SL102").values()) <= {Confidence.POSSIBLE}


COPIES = """
import torch


def to_host(x, keep=False):
    host = x.to("cpu", non_blocking=True)
    if keep:
        x.record_stream(torch.cuda.current_stream())
    return host


def stage(page, rows):
    page.copy_(rows, non_blocking=True)
"""
COPIES_USER = """
import torch
from copies import stage, to_host

N = 1 << 20


class Results:
    def __init__(self):
        self.side = torch.cuda.Stream()
        self.done = torch.cuda.Event()
        self.host = None

    def begin(self, x: torch.Tensor):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.host = to_host(x, keep=True)
            self.done.record()

    def rows(self):
        {wait}
        return self.host.tolist()


class Pages:
    def __init__(self):
        self.page = torch.zeros(N, pin_memory=True)
        self.table = torch.zeros(N, device="cuda")

    def refill(self, value):
        self.page.fill_(value)
        stage(self.table, self.page)
"""


def test_what_helpers_only_copy_stands_where_a_stream_was_entered_for_it(tmp_path: Path) -> None:
    (tmp_path / "copies.py").write_text(COPIES, encoding="utf-8")
    program = tmp_path / "program.py"
    program.write_text(COPIES_USER.format(wait="pass"), encoding="utf-8")
    assert set(_found(tmp_path, "SL201").values()) == {Confidence.LIKELY}
    # Where nobody has entered one, who gives a page back may know when its copy is done.
    assert set(_found(tmp_path, "SL202").values()) == {Confidence.POSSIBLE}
    program.write_text(COPIES_USER.format(wait="self.done.synchronize()"), encoding="utf-8")
    assert not _found(tmp_path, "SL201")


EACH = """
def for_each(parts, function):
    if isinstance(parts, dict):
        return {name: for_each(part, function) for name, part in parts.items()}
    return function(parts)
"""
EACH_USER = """
import torch
from each import for_each


class Batches:
    def __init__(self):
        self.side = torch.cuda.Stream()

    def moved(self, batch, device):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            {moved}
        {wait}
        return batch
"""
BY_LAMBDA = "batch = for_each(batch, lambda x: x.to(device, non_blocking=True))"
BY_FUNCTION = """
            def upload(x):
                made = x.to(device, non_blocking=True)
                made.record_stream(torch.cuda.current_stream())
                return made

            batch = for_each(batch, upload)"""


@pytest.mark.parametrize("moved", [BY_LAMBDA, BY_FUNCTION])
def test_what_helpers_call_for_each_part_stands_where_it_is_given_to_them(tmp_path: Path, moved: str) -> None:
    (tmp_path / "each.py").write_text(EACH, encoding="utf-8")
    program = tmp_path / "program.py"
    program.write_text(EACH_USER.format(moved=moved, wait="pass"), encoding="utf-8")
    assert set(_found(tmp_path, "SL101").values()) == {Confidence.LIKELY}
    wait = "torch.cuda.current_stream().wait_stream(self.side)"
    program.write_text(EACH_USER.format(moved=moved, wait=wait), encoding="utf-8")
    assert not _found(tmp_path, "SL101")


WAITS = """
def with_each(parts, function):
    return [function(part) for part in parts]
"""
WAITS_USER = """
import torch
from waits import with_each

N = 1 << 20


def apart(rows):
    side = torch.cuda.Stream()
    made = torch.ones(N, device="cuda") + 1

    def under_way(row):
        with torch.cuda.stream(side):
            return made + row

    parts = with_each(rows, under_way)
    return [part.sum() for part in parts]
"""


def test_what_enters_a_stream_for_itself_stands_where_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS, encoding="utf-8")
    (tmp_path / "program.py").write_text(WAITS_USER, encoding="utf-8")
    found = _found(tmp_path, "SL101")
    assert {sure for (function, _), sure in found.items() if function == "apart"} == {Confidence.LIKELY}


CAPTURE = """
import torch


class Player:
    def __init__(self, x):
        self.x = torch.ones(1 << 20, device="cuda")
        self.limit = None

    def step(self):
        y = self.x * 2
        {look}
        return y

    def capture(self):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.y = self.step()
        return graph
"""


@pytest.mark.parametrize(
    ("look", "sure"),
    [
        ("self.limit = y.max().item()", Confidence.CERTAIN),
        ("if y.max().item() > 2: y.clamp_(0, 2)", Confidence.LIKELY),
        ("if self.wants(): self.limit = y.max().item()", Confidence.POSSIBLE),
    ],
)
def test_what_a_capture_refuses_is_possible_where_another_path_goes_around_it(
    tmp_path: Path, look: str, sure: Confidence
) -> None:
    (tmp_path / "player.py").write_text(CAPTURE.format(look=look), encoding="utf-8")
    assert set(_found(tmp_path, "SL501").values()) == {sure}


PIPE = """
import torch


class Pipe:
    def __init__(self, stages, numbers=None):
        self.stages = torch.nn.ModuleList(stages)
        self.numbers = numbers or list(range(len(stages)))
        self.lanes = [torch.cuda.Stream(device=0) for _ in stages]

    def forward(self, x):
        outputs = []
        for n in range(4):
            part = x[n * 4 : n * 4 + 4]
            for stage, number, lane in zip(self.stages, self.numbers, self.lanes):
                part = part.to(torch.device(f"cuda:{number}"))
                with torch.cuda.stream(lane):
                    part = stage(part)
                outputs.append(part)
        return torch.cat(outputs)
"""


BY_NUMBER = {
    "stage, number, lane in zip(self.stages, self.numbers, self.lanes)": "k, stage in enumerate(self.stages)",
    "{number}": "{self.numbers[k]}",
    "stream(lane)": "stream(self.lanes[k])",
}


@pytest.mark.parametrize("by_number", [True, False])
def test_devices_that_only_have_a_name_may_be_one(tmp_path: Path, by_number: bool) -> None:
    """What is copied to device 1 is worked on there, and not on a stream of device 0."""
    text = PIPE
    for plain, at in BY_NUMBER.items() if by_number else ():
        text = text.replace(plain, at)
    (tmp_path / "pipe.py").write_text(text, encoding="utf-8")
    findings = check_paths([tmp_path], min_confidence="possible", jobs=1).findings
    assert any(one.confidence is not Confidence.POSSIBLE for one in findings)
    of_the_other = [one for one in findings if "the default stream of device 1" in one.message]
    assert all(one.confidence is Confidence.POSSIBLE for one in of_the_other)
