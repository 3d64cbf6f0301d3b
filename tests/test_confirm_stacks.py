"""What the stacks of a program that does not end tell."""

from __future__ import annotations

from streamlint.confirm.inside import stacks
from streamlint.confirm.inside.stacks import Frame, read_stacks, stuck_at
from streamlint.confirm.terms import Cause

FIRST = """\
Timeout (0:00:03.600000)!
Thread 0x00007fdae38d2140 (most recent call first):
  File "/home/me/earlier.py", line 1 in done
"""
CALLBACK = """\
Timeout (0:00:03.600000)!
Thread 0x00007fdab9df46c0 (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 355 in wait
  File "/home/me/a.py", line 7 in finished

Thread 0x00007fdae38d2140 (most recent call first):
"""


def test_the_last_stacks_count() -> None:
    main = '  File "/home/me/a.py", line 12 in f\n'
    assert read_stacks(f"noise\n{FIRST}{CALLBACK}{main}") == [
        [Frame("/usr/lib/python3.12/threading.py", 355, "wait"), Frame("/home/me/a.py", 7, "finished")],
        [Frame("/home/me/a.py", 12, "f")],
    ]
    assert read_stacks("no stack") == []


def test_a_program_waits_in_its_own_file_or_below() -> None:
    for inner in ("", '  File "/site-packages/cupy/cuda/stream.py", line 3 in synchronize\n'):
        where, cause = stuck_at(f'{CALLBACK}{inner}  File "/home/me/a.py", line 12 in f\n', "/home/me/a.py")
        assert where == "; it waits at a.py, line 12, in f, and another thread at a.py, line 7, in finished"
        assert cause is Cause.TIMEOUT


def test_what_confirm_waits_for_is_not_the_programs_doing() -> None:
    probe = f'  File "{stacks._OWN}/probe.py", line 86 in step\n'
    user = '  File "/home/me/a.py", line 12 in f\n'
    child = f'  File "{stacks._OWN}/child.py", line 210 in _call\n'
    assert stuck_at(CALLBACK + probe + user + child, "/home/me/a.py")[1] is Cause.ELSEWHERE
    assert stuck_at(CALLBACK + child, "/home/me/a.py")[1] is Cause.ELSEWHERE
    assert stuck_at(CALLBACK + user + child, "/home/me/a.py")[1] is Cause.TIMEOUT
    assert stuck_at("", "/home/me/a.py") == ("", Cause.TIMEOUT)
