"""Which statements of a whole program belong together, and when their memory is compared.

What a function leaves is gone when the program ends, so each race must be seen where it happens.
"""

from __future__ import annotations

import sys
import textwrap

import pytest

from streamlint.confirm.verdict import Verdict
from tests.confirm_program_support import Workshop, workshop

__all__ = ["workshop"]


def test_statements_that_name_no_memory_in_common_are_compared_all_the_same(workshop: Workshop) -> None:
    text = """\
    import sys
    import fakegpu
    first, side = fakegpu.Stream(), fakegpu.Stream()
    loss, grad, bucket = fakegpu.Array(0), fakegpu.Array(0), fakegpu.Array(0)

    def backward(of, stream):
        fakegpu.copy(grad, fakegpu.Array(7), stream=stream)

    backward(loss, first)
    if sys.argv[1:]:
        fakegpu.wait(side, first)
    fakegpu.copy(bucket, grad, stream=side)
    fakegpu.synchronize()
    """
    script = workshop.write("hooks.py", textwrap.dedent(text))
    plan = workshop.plan("hooks.py", "backward(loss", "copy(bucket")
    (racing,) = workshop.confirm(sys.executable, str(script), plans=[plan])
    assert racing.decision.verdict is Verdict.CONFIRMED, racing.decision
    (ordered,) = workshop.confirm(sys.executable, str(script), "ordered", plans=[plan])
    assert ordered.decision.verdict is Verdict.ORDERED, ordered.decision


RACES = {
    "the statement is both": (
        """\
        def loaded(slot):
            fakegpu.write(slot, fakegpu.Array(7))
            if ordered:
                fakegpu.synchronize()
            return slot

        def run(side):
            total = loaded(fakegpu.Array(0))[0]
            return total
        """,
        "total = loaded",
        "total = loaded",
    ),
    "the statement is both, in a loop": (
        """\
        def run(side):
            slot = fakegpu.Array(0)
            for number, stream in enumerate((fakegpu.Stream(), side)):
                if ordered:
                    fakegpu.synchronize()
                fakegpu.copy(slot, fakegpu.Array(number), stream=stream)
        """,
        "copy(slot",
        "copy(slot",
    ),
    "the next iteration makes it good": (
        """\
        class Model:
            def __init__(self):
                self.grad = fakegpu.Array(0)

            def backward(self, loss):
                fakegpu.write(self.grad, loss)

        def run(side):
            model, loss, bucket = Model(), fakegpu.Array(7), fakegpu.Array(0)
            for _ in range(2):
                model.backward(loss)
                if ordered:
                    fakegpu.synchronize()
                fakegpu.copy(bucket, model.grad, stream=side)
                fakegpu.synchronize()
        """,
        "model.backward(loss)",
        "copy(bucket",
    ),
    "what is returned is read": (
        """\
        def made(source):
            return fakegpu.filled(fakegpu.Array(0), source)

        def run(side):
            seven, y = fakegpu.Array(7), fakegpu.Array(0)
            x = made(seven)
            if ordered:
                fakegpu.synchronize()
            for source in (fakegpu.Array(1), x):
                fakegpu.copy(y, source, stream=side)
        """,
        "return fakegpu.filled",
        "copy(y, source",
    ),
    "a call finds the buffer": (
        """\
        class Bucket:
            def __init__(self):
                self.buffer = fakegpu.Array(1)

            def current(self):
                return self.buffer

        def run(side):
            bucket, total, seven = Bucket(), fakegpu.Array(0), fakegpu.Array(7)
            fakegpu.write(total, bucket.current())
            if ordered:
                fakegpu.synchronize()
            for one in (Bucket(), bucket):
                fakegpu.copy(one.current(), seven, stream=side)
        """,
        "write(total",
        "copy(one.current()",
    ),
}


@pytest.mark.parametrize("race", RACES)
def test_a_race_is_compared_where_it_happens(workshop: Workshop, race: str) -> None:
    body, earlier, later = RACES[race]
    text = "import sys\nimport fakegpu\n\nordered = bool(sys.argv[1:])\n\n" + textwrap.dedent(body)
    script = workshop.write("race.py", text + "\nrun(fakegpu.Stream())\n")
    plan = workshop.plan("race.py", earlier, later)
    (racing,) = workshop.confirm(sys.executable, str(script), plans=[plan])
    assert racing.decision.verdict is Verdict.CONFIRMED, racing.decision
    (right,) = workshop.confirm(sys.executable, str(script), "ordered", plans=[plan])
    assert right.decision.verdict is Verdict.ORDERED, right.decision


def test_a_callback_does_not_wait_for_a_probe_that_waits_for_it(workshop: Workshop) -> None:
    text = """\
    import time
    import fakegpu

    x, y, seen = fakegpu.Array(0), fakegpu.Array(0), []

    def finished():
        time.sleep(0.3)
        seen.append(y[0])

    fakegpu.call_back(finished)
    fakegpu.write(x, fakegpu.Array(7))
    fakegpu.synchronize()
    """
    script = workshop.write("called.py", text)
    plan = workshop.plan("called.py", "write(x", "seen.append")
    (done,) = workshop.confirm(sys.executable, str(script), plans=[plan], timeout_s=5)
    assert "did not end" not in done.decision.reason, done.decision
