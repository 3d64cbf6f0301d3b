"""Several findings in one run in which each may race, one after the other; and whose doing it is what shows.

A wrong value that one race leaves may spoil what another turn looks at afterwards. So what shows in a run
in which other gates were closed before counts only if those gates alone do not make it show: in further
runs some of the executions have gates, and the others are looked at without. Only what comes earlier can
spoil what comes later, so for *n* executions it takes the logarithm of *n* such runs until each has been
looked at once behind each gate that was closed before its own.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streamlint.confirm.inside.turns import Execution
    from streamlint.confirm.run.seen import Seen


class Shown(Enum):
    """What is another in a run than in the reference."""

    NOTHING = "nothing"
    CONTENTS = "contents"
    """Those of memory, at the end of the turn."""
    ENDING = "ending"
    """The end of the program, which may be anybody's doing."""


class _Running(Protocol):
    def __call__(self, held: Sequence[Execution], free: Sequence[Execution] = ()) -> Seen: ...


@frozen()
class Together:
    """``run`` makes a run with gates for some executions, ``shows`` compares what it left of one."""

    run: _Running
    shows: Callable[[Execution, Seen], Shown]

    def tell(self, executions: Sequence[Execution]) -> dict[Execution, Seen]:
        """The run that tells of each of them: one that it shares, where nothing else can have made it so."""
        answers: dict[Execution, Seen] = {}
        left = list(executions)
        while left:
            seen = self.run(left)
            begun = [one for one in seen.begun if one in left]
            if len(left) == 1 or not begun:
                # Alone; or several processes have them, or none.
                return answers | {one: seen if len(left) == 1 else self.run([one]) for one in left}
            answers |= self._answers(begun, seen)
            # A turn that comes while another one is under way waits for the next run.
            left = [one for one in left if one not in begun]
        return answers

    def _answers(self, begun: list[Execution], seen: Seen) -> dict[Execution, Seen]:
        shown = {one: self.shows(one, seen) for one in begun}
        clear = {one for one in begun if shown[one] is Shown.NOTHING}
        wrong = [one for one in begun if shown[one] is Shown.CONTENTS]
        if wrong[:1] == begun[:1]:
            clear.add(begun[0])  # no gate was closed before
        clear |= self._own(begun, [one for one in wrong if one not in clear])
        return {one: seen if one in clear else self.run([one]) for one in begun}

    def _own(self, begun: list[Execution], wrong: list[Execution]) -> set[Execution]:
        """Those that none of the gates before theirs makes show."""
        if not wrong:
            return set()
        last = len(begun) - 1
        spoilt: set[Execution] = set()
        for bit in range(last.bit_length()):
            # The number of what comes earlier is higher: in the highest bit in which two differ it has a one.
            held = [one for at, one in enumerate(begun) if (last - at) >> bit & 1]
            free = [one for one in wrong if one not in held]
            if free:
                seen = self.run(held, free)
                spoilt |= {
                    one for one in free if one not in seen.begun or self.shows(one, seen) is not Shown.NOTHING
                }
        return set(wrong) - spoilt
