from __future__ import annotations
import pytest
from streamlint.confirm.doctor.axiom import Axiom, Verdict
from streamlint.confirm.doctor.child import perform
from streamlint.confirm.doctor.lab import Lab
from streamlint.confirm.doctor.table import GROUPS
from streamlint.confirm.driver import Driver
from tests.simulated_cuda import Machine, install

AXIOMS = [axiom for group in GROUPS if not group.library for axiom in group.axioms]


@pytest.mark.parametrize("axiom", [a for a in AXIOMS if a.devices == 1], ids=lambda a: f"{a.law}-{a.case}")
def test_simulated(axiom: Axiom, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Machine())
    lab = Lab(Driver())
    result = perform(lab, axiom, 1)
    assert (result.verdict, result.measured) == (Verdict.HOLDS, axiom.expected)
    lab.clean()
