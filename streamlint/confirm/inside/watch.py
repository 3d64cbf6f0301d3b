"""What the probes of a whole program do; ``weave`` puts them there.

One finding is *active* in a run (several where it is serialized): only the gate of one execution of its
earlier operation, the *turn*, is closed. From there on each execution of the later operation is looked at.
The first one that touches memory which the earlier one touched ends the turn: the gate is opened, the
device becomes idle, and what both have touched is compared between runs. At that point of the program a
correctly ordered one has the same contents whatever the schedule was.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar

from streamlint.confirm.gpu.driver import Driver, DriverError, DriverUnavailableError
from streamlint.confirm.gpu.gate import Gate
from streamlint.confirm.gpu.handles import (
    handles,
    library_is_capturing,
    named_among,
    of_launch,
    on_callback_thread,
)
from streamlint.confirm.inside import cuda_errors
from streamlint.confirm.inside.hold import hold_back
from streamlint.confirm.inside.lookout import Lookout
from streamlint.confirm.inside.outcome import look_out, measured, of_earlier, overtakes, try_orders
from streamlint.confirm.inside.places import passed
from streamlint.confirm.inside.probe import Mode
from streamlint.confirm.inside.reuse import hand_out
from streamlint.confirm.inside.sight import sight_of
from streamlint.confirm.inside.telling import Telling
from streamlint.confirm.inside.turns import Later, Stop, Turn
from streamlint.confirm.inside.warm import WarmUp
from streamlint.confirm.text.weave import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from streamlint.confirm.inside.sight import Sight
    from streamlint.confirm.inside.turns import Order
    from streamlint.confirm.text.weave import Site

T = TypeVar("T")

MAX_TURNS: Final = 4
"""So many executions of an earlier operation are held back, one in each run."""

_MAX_LATERS: Final = 16
"""A later operation that never touches the same memory ends the turn all the same."""

_OVERTAKE_S: Final = 0.03


class Watch:
    """The object that woven programs know as ``__streamlint__``."""

    def __init__(
        self,
        sites: Sequence[Site],
        order: Order,
        emit: Callable[[dict[str, Any]], None],
        make_driver: Callable[[], Driver] = Driver,
        make_lookout: Callable[[Driver, Gate, float], Lookout] = Lookout,
    ) -> None:
        self._sites = sites
        self._order = order
        self._telling = Telling(emit)
        self._make_driver = make_driver
        self._make_lookout = make_lookout
        self._lookout: Lookout | None = None
        """Where driver calls are seen, gates stand in front of those; else before the statement."""
        self._loading: list[tuple[int, int]] = []
        self._driver: Driver | None = None
        self._gate: Gate | None = None
        self._dead = False
        self._warm_up = WarmUp()
        self._lock = threading.RLock()
        self._counts: dict[int, int] = {}
        self._turns: list[Turn] = []
        self._later: dict[int, Later] = {}
        self._kept: list[object] = []
        self._pid = os.getpid()
        atexit.register(self._at_end)
        os.register_at_fork(after_in_child=self._forked)

    # ------------------------------------------------------------------ probes

    def enter(self, numbers: tuple[int, ...]) -> None:
        """Before the statement of these sites."""
        self._pass(numbers, "inside")
        with self._acting():
            for number in self._active(numbers):
                site = self._sites[number]
                if site.role is Role.EARLIER:
                    self._begin_turn(site.finding)
                elif site.role is Role.LATER:
                    self._begin_later(site.finding, own=self._holds_earlier(numbers, site.finding))

    def hold_current(self, numbers: tuple[int, ...]) -> None:
        """Before an earlier statement that names no stream: it runs on the current one."""
        self.hold_among(numbers)

    def hold_among(self, numbers: tuple[int, ...], *arguments: object) -> tuple[object, ...]:
        """Around the arguments of an earlier call that may have its stream among them."""
        with self._acting():
            for number in self._active(numbers):
                self._hold_among(self._sites[number].finding, arguments)
        return arguments

    def on(self, numbers: tuple[int, ...], stream: T) -> T:
        """Around a stream argument."""
        with self._acting():
            for number in self._active(numbers):
                self._on(self._sites[number], handles(stream))
        return stream

    def on_launch(self, numbers: tuple[int, ...], configuration: T) -> T:
        """Around launch brackets."""
        with self._acting():
            for number in self._active(numbers):
                self._on(self._sites[number], of_launch(configuration))
        return configuration

    def on_arguments(self, numbers: tuple[int, ...], arguments: tuple[object, ...]) -> tuple[object, ...]:
        """Around all arguments of a call that has its stream among them, if it is what its name says."""
        with self._acting():
            for number in self._active(numbers):
                site = self._sites[number]
                if site.role is Role.EARLIER:
                    self._hold_among(site.finding, arguments)
                else:
                    self._on(site, named_among(arguments))
        return arguments

    def see(self, numbers: tuple[int, ...], name: str, value: T) -> T:
        """Around what a statement touches."""
        with self._acting():
            for number in self._active(numbers):
                sight = sight_of(name, value, self._driver)
                if sight is not None:
                    self._keep(self._sites[number], sight)
        return value

    def call(self, numbers: tuple[int, ...], line: int, value: T) -> T:
        """Around the result of a call: errors that the program may not look at, and memory.

        Its contents are not: ``fill(torch.empty(n))`` may leave a part of them as it was.
        """
        if isinstance(value, tuple) and value:
            error = cuda_errors.of_status(value[0], line, in_callback=on_callback_thread())
            if error is not None:
                self._telling.errors(self._findings(numbers), [error])
        with self._acting():
            active = self._active(numbers)
            if active and self._order.mode.serialized:
                # Within a statement, too: float(slot.copy_(x, non_blocking=True))
                self._synchronize()
            result = sight_of("", value, self._driver) if active else None
            for number in active:
                self._touch(self._sites[number], result, value)
        return value

    def raised(self, numbers: tuple[int, ...], error: BaseException) -> None:
        """An exception leaves the statement of these sites."""
        driver = self._driver or self._ready()
        path = self._sites[numbers[0]].path
        if driver is not None:
            found = cuda_errors.of_exception(error, path, driver, in_callback=on_callback_thread())
            self._telling.errors(self._findings(numbers), list(found))

    def caught(self) -> None:
        """At the start of an ``except`` block."""
        error = sys.exc_info()[1]
        for number, site in enumerate(self._sites):
            if error is not None and site.role is Role.GUARD and passed(error, site):
                self.raised((number,), error)

    def leave(self, numbers: tuple[int, ...], value: T | None = None) -> T | None:
        """After the statement of these sites."""
        self._pass(numbers, "outside")
        with self._acting():
            for number in self._active(numbers):
                site = self._sites[number]
                if site.role is Role.LATER:
                    self._end_later(site.finding, value)
                elif site.role is Role.STUCK:
                    self._telling.once({"event": "watched", "finding": site.finding})
                elif site.role is Role.EARLIER:
                    self._after_earlier(site, value)
        return value

    def proceeds(self, numbers: tuple[int, ...]) -> bool:
        """Whether a statement that may never end is to run."""
        findings = self._findings(numbers)
        return self._order.mode is not Mode.UNBLOCKED or self._order.findings.isdisjoint(findings)

    def _findings(self, numbers: tuple[int, ...]) -> set[int]:
        return {self._sites[number].finding for number in numbers}

    def _pass(self, numbers: tuple[int, ...], event: str) -> None:
        """Note where the program is, on every thread: it may not come back from there."""
        for finding in self._findings(numbers) & self._order.stuck:
            self._telling.emit({"event": event, "finding": finding})

    # ------------------------------------------------------------------ earlier

    def _begin_turn(self, finding: int) -> None:
        number = self._counts.get(finding, 0)
        self._counts[finding] = number + 1
        if number >= MAX_TURNS:
            return
        self._telling.emit({"event": "reached", "finding": finding, "turn": number})
        # Of several gates in a run in which something may race, one is closed at a time: the device is idle
        # when a turn ends, so that another one begins as it does alone.
        if self._order.begins(finding, number) and not (self._order.mode.races and self._turns):
            self._turns.append(Turn(finding, number))
            self._telling.emit({"event": "begun", "finding": finding, "turn": number})
            self._look_out(finding, number)

    def _look_out(self, finding: int, turn: int) -> None:
        """A turn has begun; what its statement asks of the driver comes next."""
        lookout, folder = self._lookout, self._order.images
        if self._gate is not None and not self._gate.closed:
            self._gate.rearm()
        self._loading[:] = [(one.finding, one.number) for one in self._turns]
        if lookout is None or not self._order.mode.delays:
            return
        lookout.opened_by = ""
        if folder is not None:
            lookout.load_images(folder, finding, turn)
        if self._gate_for(finding) is not None:
            lookout.begin_earlier(records=finding in self._order.records)

    def _current(self, finding: int) -> Turn | None:
        """The turn that this execution belongs to, while its statement runs."""
        number = self._counts.get(finding, 0) - 1
        return next((t for t in self._turns if t.finding == finding and t.number == number), None)

    def _on(self, site: Site, streams: list[int]) -> None:
        if site.role is Role.EARLIER:
            self._hold(site.finding, streams)
        elif site.finding in self._later:
            self._later[site.finding].streams.extend(streams)

    def _hold(self, finding: int, streams: list[int]) -> None:
        gate = self._gate_for(finding) if self._lookout is None else None
        if gate is not None:
            for stream in streams:
                gate.hold(stream)
            self._telling.emit({"event": "held", "finding": finding})

    def _hold_among(self, finding: int, arguments: tuple[object, ...]) -> None:
        gate = self._gate_for(finding) if self._lookout is None else None
        if gate is not None:
            for other in hold_back(gate, self._order.hold, arguments):
                self._telling.emit({"event": "other", "finding": finding, "hold": other.value})
            self._telling.emit({"event": "held", "finding": finding})

    def _gate_for(self, finding: int) -> Gate | None:
        """The gate, if this execution of the earlier operation is to be held back."""
        turn = self._current(finding)
        wanted = turn is not None and self._order.holds(finding, turn.number)
        return self._gate if wanted else None

    def _after_earlier(self, site: Site, value: object) -> None:
        finding = site.finding
        returned = sight_of("value", value, self._driver)
        if returned is not None:
            self._keep(site, returned)
        turn = self._current(finding)
        if turn is not None and finding in self._order.reuse:
            turn.blocks = [b for sight in turn.sights if (b := sight.block(self._driver)) is not None]
        self._end_earlier(finding, turn)
        if self._order.mode.serialized:
            self._synchronize()
        gate = self._gate_for(finding)
        if gate is not None and self._order.mode.races and not gate.closed:
            self._telling.emit({"event": "outlasted", "finding": finding})

    def _end_earlier(self, finding: int, turn: Turn | None) -> None:
        """What its statement has queued is known."""
        statement = None if self._lookout is None else self._lookout.end_earlier()
        if statement is None:
            return
        if turn is not None:
            turn.queued, turn.operations = statement, statement.operations
        self._telling.emit(of_earlier(statement) | {"finding": finding})

    # ------------------------------------------------------------------ later

    def _holds_earlier(self, numbers: tuple[int, ...], finding: int) -> bool:
        """Whether one of the sites of a statement is the earlier operation of the finding."""
        sites = [self._sites[number] for number in numbers]
        return any(site.finding == finding and site.role is Role.EARLIER for site in sites)

    def _begin_later(self, finding: int, *, own: bool) -> None:
        if self._order.mode.serialized:
            self._synchronize()
        closed = self._gate is not None and self._order.mode.races and self._gate.closed
        self._later[finding] = Later(closed, own)
        if self._lookout is not None:
            self._lookout.begin_later()

    def _end_later(self, finding: int, value: object) -> None:
        later = self._later.pop(finding, None)
        if later is None:
            return
        self._telling.once({"event": "watched", "finding": finding})
        waited = time.monotonic() - later.began
        if self._lookout is not None:
            later.queued = self._lookout.end_later()
        returned = sight_of("value", value, self._driver)
        if returned is not None:
            later.sights.append(returned)
        later.sights += later.results
        for turn in [turn for turn in self._turns if turn.finding == finding]:
            self._pass_turn(turn, later, waited)

    def _pass_turn(self, turn: Turn, later: Later, waited: float) -> None:
        """A later operation is over: the turn ends, or waits for another one."""
        finding, place = turn.finding, {"finding": turn.finding, "turn": turn.number}
        turn.laters += 1
        own = later.own and turn is self._current(finding)
        ends = finding in self._order.reuse or (not own and turn.shares(later.keys))
        is_first = turn.laters == 1
        if not ends:
            turn.strangers += later.sights
            if is_first:
                self._telling.emit({"event": "other", "finding": finding, "stop": Stop.FIRST.value})
        if is_first or ends:
            self._telling.emit({"event": "waited", **place, "seconds": waited})
        if is_first and self._order.mode is Mode.REFERENCE:
            # The one run that all others are compared with: those that stop here, and those that do not.
            self._synchronize()
            self._telling.seen(turn, later.sights, Stop.FIRST, self._driver)
        if not ends and not (is_first and self._order.stop is Stop.FIRST) and turn.laters < _MAX_LATERS:
            return
        patient = self._lookout is not None and self._order.is_patient
        limit_s = self._order.delay_ms / 1e3 if patient else _OVERTAKE_S
        overtaken = later.closed and overtakes(self._driver, self._gate, later, limit_s)
        if overtaken:
            self._telling.emit({"event": "overtaken", **place})
        self._end_turn(turn, later.sights if ends else turn.strangers, later.streams)
        if self._order.measures and self._lookout is not None:
            self._telling.emit(measured(self._lookout, turn, later))
        if self._order.mode is Mode.ORDER:
            if overtaken and self._lookout is not None:
                try_orders(self._lookout, turn, later, self._telling.emit)
            os._exit(0)  # the memory of the program may be spoilt

    def _end_turn(self, turn: Turn, sights: list[Sight], streams: list[int]) -> None:
        self._turns.remove(turn)
        if self._driver is not None:
            self._kept += [hand_out(block, self._driver, streams) for block in dict.fromkeys(turn.blocks)]
        self._loading[:] = [(one.finding, one.number) for one in self._turns]
        if self._lookout is not None and self._lookout.opened_by:
            call = self._lookout.opened_by
            self._telling.emit(
                {"event": "opened", "finding": turn.finding, "turn": turn.number, "call": call}
            )
        self._open()
        self._synchronize()
        self._telling.seen(turn, sights, self._order.stop, self._driver)
        self._kept.clear()

    def _open(self) -> None:
        if self._gate is not None and self._order.mode.delays:
            self._gate.release()
        if self._lookout is not None:
            self._lookout.open()

    def _at_end(self) -> None:
        """What no later operation ended: the end of the program does."""
        if self._dead or os.getpid() != self._pid:
            return
        with self._acting():
            if self._driver is not None and not self._refused():
                for turn in list(self._turns):
                    self._end_turn(turn, turn.strangers, [])
        if self._lookout is not None:
            self._lookout.close()

    # ------------------------------------------------------------------ the rest

    @contextmanager
    def _acting(self) -> Iterator[None]:
        """One probe at a time. It must not fail: a device that an error has broken stays the program's."""
        # In a callback none acts. To wait there for one that waits for the device would be a deadlock.
        with nullcontext() if on_callback_thread() else self._lock:
            try:
                with nullcontext() if self._lookout is None else self._lookout.quiet():
                    yield
            except Exception as error:
                self._dead = True
                text = str(error).strip() or type(error).__name__
                self._telling.emit({"event": "broken", "text": text.splitlines()[0][:200]})

    def _active(self, numbers: tuple[int, ...]) -> list[int]:
        """The sites to act at; none where CUDA calls are forbidden."""
        wanted = [n for n in numbers if self._order.watches(self._sites[n].finding)]
        if not wanted or self._dead:
            return []
        if self._order.mode is Mode.PLAIN or self._refused():
            # That the place was reached is all that a finding about errors asks for.
            for n in wanted:
                finding = self._sites[n].finding
                self._telling.once({"event": "watched", "finding": finding})
            return []
        return wanted if self._ready() is not None else []

    def _refused(self) -> bool:
        return on_callback_thread() or library_is_capturing()

    def _ready(self) -> Driver | None:
        """The driver, with a gate: made at the first probe, so that a program may fork before."""
        if self._dead:
            return None
        with self._lock:
            try:
                if self._driver is None:
                    self._start(self._make_driver())
                elif self._gate is not None:
                    self._driver.ensure_context()
            except (DriverError, DriverUnavailableError) as error:
                self._dead = True
                self._telling.emit({"event": "driver", "text": str(error)})
                return None
            if self._gate is not None:
                self._warm_up()
            return self._driver

    def _start(self, driver: Driver) -> None:
        gpu = {"GPU": driver.device_name(), "CUDA driver API": driver.version()}
        self._telling.emit({"event": "environment", "versions": gpu})
        if self._order.mode is not Mode.PLAIN:
            # Not where errors are looked for: making a gate would spoil a capture that is under way.
            driver.ensure_context()
            self._gate = Gate(driver, self._order.delay_ms)
            self._lookout, where = look_out(
                self._make_lookout, driver, self._gate, self._order, self._loading
            )
            self._telling.emit({"event": "gates", "text": where})
        self._driver = driver

    def _synchronize(self) -> None:
        if self._driver is not None:
            if self._lookout is not None:
                self._open()
            self._driver.synchronize()

    def _execution(self, site: Site) -> Turn | Later | None:
        """What the statement of a site is part of."""
        match site.role:
            case Role.EARLIER:
                return self._current(site.finding)
            case Role.LATER:
                return self._later.get(site.finding)
            case Role.STUCK | Role.GUARD:
                return None

    def _keep(self, site: Site, sight: Sight) -> None:
        """Compare its contents at the end of the turn, and its memory before."""
        execution = self._execution(site)
        if execution is not None:
            execution.sights.append(sight)
            execution.keys |= sight.keys()

    def _touch(self, site: Site, result: Sight | None, value: object) -> None:
        """Compare its memory alone; of a later operation numbers too."""
        match self._execution(site):
            case Turn() as turn:
                turn.results += [] if result is None else [result]
            case Later() as later:
                later.gave(result, value)
            case None:
                pass

    def _forked(self) -> None:
        # CUDA does not survive a fork. A process that forks before its first probe is a new one.
        self._lock = threading.RLock()
        self._turns, self._later = [], {}
        self._dead = self._dead or self._driver is not None
        self._pid = os.getpid()
