"""Launches of graphs, and threads that host callbacks wake."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from streamlint.confirm.doctor.axiom import ORDERED, UNORDERED, Axiom, Basis, Group
from streamlint.confirm.doctor.lab import NEW, Lab, Race
from streamlint.confirm.doctor.refused import RELAXED, queue

if TYPE_CHECKING:
    from streamlint.confirm.doctor.axiom import Measure

_G = Basis.GUARANTEED


def capture(lab: Lab) -> int:
    """A graph that fills memory of its own."""
    stream, data = lab.non_blocking(), lab.device()
    lab.call("cuStreamBeginCapture_v2", stream, RELAXED)
    lab.fill(data, NEW, stream)
    graph = lab.end_capture(stream)
    lab.after(lambda: lab.call("cuGraphDestroy", graph))
    return graph


def executable(lab: Lab, graph: int) -> int:
    made = lab.made("cuGraphInstantiateWithFlags", graph, 0)
    lab.after(lambda: lab.call("cuGraphExecDestroy", made))
    # The first launch also uploads the graph, which takes time, and shows nothing about order.
    lab.call("cuGraphLaunch", made, lab.non_blocking())
    lab.synchronize()
    return made


def launches(*, executables: int, captures: int = 1, one_stream: bool = False) -> Measure:
    """Two launches, of the first and the last executable graph; the first is held back."""

    def measure(lab: Lab) -> str:
        graphs = [capture(lab) for _ in range(captures)]
        made = [executable(lab, graphs[n % captures]) for n in range(executables)]
        first = lab.non_blocking()
        second = first if one_stream else lab.non_blocking()
        lab.hold(first)
        lab.call("cuGraphLaunch", made[0], first)
        lab.call("cuGraphLaunch", made[-1], second)
        seen = lab.overtakes(second)
        lab.let_go()
        return seen

    return measure


def flag_of_callback(lab: Lab) -> str:
    """``write(a); callback(a, flag.set)``, and in a thread ``flag.wait(); read(b)``."""
    race, flag = Race.of(lab), threading.Event()
    a, b = lab.non_blocking(), lab.non_blocking()
    seen: list[str] = []

    def child() -> None:
        lab.driver.activate()
        flag.wait(5)
        seen.append(race.read(b))

    thread = threading.Thread(target=child)
    thread.start()
    race.write_soon(a)
    queue(lab, a, flag.set)
    thread.join()
    return seen[0]


_ONE = "two launches of one executable graph, on any streams"
_TWO = "launches of two executable graphs, also of one capture"

GRAPHS: Final = Group(
    "Graphs and threads",
    (
        Axiom(_ONE, ORDERED, _G, launches(executables=1), "two streams"),
        Axiom(_ONE, ORDERED, _G, launches(executables=1, one_stream=True), "one stream"),
        Axiom(_TWO, UNORDERED, _G, launches(executables=2), "of one capture"),
        Axiom(_TWO, UNORDERED, _G, launches(executables=2, captures=2), "of two captures"),
        Axiom("a callback sets a flag, a thread waits for it", ORDERED, _G, flag_of_callback),
    ),
)
