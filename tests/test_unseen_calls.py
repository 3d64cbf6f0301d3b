"""A call that nobody has seen, and whose result nobody uses, may wait: no finding across it is certain."""

from pathlib import Path

import pytest

from streamlint.api import check_source
from streamlint.finding import Confidence

PROGRAM = """
import logging
import torch
from somewhere import backend, gather

log = logging.getLogger()

def run():
    host = torch.empty(8, pin_memory=True)
    host.copy_(torch.ones(8, device="cuda"), non_blocking=True)
    {between}
    total = host.sum()
    {behind}
    return total
"""


def confidence(folder: Path, between: str = "pass", behind: str = "pass") -> Confidence:
    text = PROGRAM.format(between=between, behind=behind)
    (finding,) = check_source(text, str(folder / "run.py")).findings
    assert finding.code == "SL201"
    return finding.confidence


@pytest.mark.parametrize("call", ["backend.finish()", "gather(3)", "backend.lane(0).flush()"])
def test_what_unseen_code_does_is_not_known(call: str, tmp_path: Path) -> None:
    assert confidence(tmp_path, call) is Confidence.LIKELY
    assert confidence(tmp_path, behind=call) is Confidence.CERTAIN


@pytest.mark.parametrize("call", ["log.info('x')", "print('x')", "n = backend.count()", "import os"])
def test_who_answers_does_no_more(call: str, tmp_path: Path) -> None:
    assert confidence(tmp_path, call) is Confidence.CERTAIN
