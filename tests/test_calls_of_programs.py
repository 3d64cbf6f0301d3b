"""A program makes all calls of its own classes, unless another file may."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import check_paths
from streamlint.finding import Confidence

if TYPE_CHECKING:
    from pathlib import Path

UPLOADS = """
import torch

class Uploads:
    def __init__(self):
        self.side = torch.cuda.Stream()
        self.page = torch.empty(1024).pin_memory()
        self.there = torch.empty(1024, device="cuda")
        torch.cuda.synchronize()

    def put(self, number):
        self.page.fill_(number)
        with torch.cuda.stream(self.side):
            self.there.copy_(self.page, non_blocking=True)

    def wait(self):
        self.side.synchronize()


def main():
    uploads = Uploads()
    for number in range(3):
        uploads.put(number)
        {then}
    uploads.wait()


if __name__ == "__main__":
    main()
"""
RIGHT = UPLOADS.format(then="uploads.wait()")
WRONG = UPLOADS.format(then="pass")
USER = """
from uploads import Uploads

def run(numbers):
    made = [Uploads() for _ in numbers]
    for one, number in zip(made, numbers):
        one.put(number)
    return made
"""
DROPPED = "from uploads import Uploads\n\ndef run(numbers):\n    return [Uploads().put(n) for n in numbers]\n"


def found(folder: Path, **texts: str) -> set[tuple[str, Confidence]]:
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    report = check_paths([folder], min_confidence=Confidence.POSSIBLE)
    return {(one.code, one.confidence) for one in report.findings}


def test_calls_in_order(tmp_path: Path) -> None:
    assert found(tmp_path, uploads=RIGHT) == set()


def test_a_program_with_a_wrong_call(tmp_path: Path) -> None:
    assert found(tmp_path, uploads=WRONG) == {("SL202", Confidence.LIKELY)}


def test_another_file_may_call_otherwise(tmp_path: Path) -> None:
    assert found(tmp_path, uploads=RIGHT, user=USER) == {("SL202", Confidence.POSSIBLE)}


def test_what_another_file_drops_at_once_goes_back_too_early(tmp_path: Path) -> None:
    assert ("SL401", Confidence.LIKELY) in found(tmp_path, uploads=RIGHT, user=DROPPED)
