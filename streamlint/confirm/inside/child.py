"""Runs functions, each in a process of its own: ``python -m streamlint.confirm.inside.child MODULE...``.

The server imports the named modules, which must not touch the GPU, once; then it forks for each
request line on standard input, because importing a framework takes longer than all the rest.
Needs nothing outside the standard library but what the user's program imports, so that it can run
with the interpreter of the user's environment.
"""

from __future__ import annotations

import ast
import faulthandler
import gc
import importlib.util
import json
import os
import signal
import sys
import time
import traceback
import types
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from streamlint.confirm.gpu.driver import NOT_READY, Driver, DriverError, DriverUnavailableError
from streamlint.confirm.gpu.gate import Gate
from streamlint.confirm.inside.hold import Hold
from streamlint.confirm.inside.last_words import tail
from streamlint.confirm.inside.pinned import Pinned
from streamlint.confirm.inside.probe import Mode, Probe
from streamlint.confirm.inside.reuse import Past
from streamlint.confirm.inside.seeds import again as seed_again
from streamlint.confirm.inside.stacks import has_stacks, stuck_at
from streamlint.confirm.inside.values import snapshot
from streamlint.confirm.inside.variables import Variables
from streamlint.confirm.inside.warm import warm
from streamlint.confirm.text.instrument import PROBE, Place, Purpose, instrument
from streamlint.confirm.verdict import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

_POLL_S = 0.005
_POISON = 0xA5
_BEGIN = {"status": "begin"}
"""The GPU is ready: what that took is no part of the first run's time."""

_END = {"status": "end"}
_COMPILING = ("numba", "cupy", "triton")
"""They compile or load a kernel at its first launch, and here each run has new kernel objects."""

_LOADING = ("torch",)
"""It loads a kernel at the first launch in a process."""
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)


def serve(preload: list[str]) -> None:
    """Answer each request ``{"job": ..., "timeout_s": ..., "log": path}`` with one line of JSON.

    The answer lists the results of the runs of the job, in order, up to the first after which the
    process could not go on.
    """
    for name in preload:
        with suppress(Exception):  # the program's own import will report it
            importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        print(json.dumps(_forked(request)), file=answers, flush=True)


def _forked(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Run one job in a child; whatever it started is gone afterwards."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _child(request, writing)
    os.close(writing)
    os.set_blocking(reading, False)
    data, status = _collect(child, reading, float(request["timeout_s"]))
    os.close(reading)
    # The child leads a session of its own, so this reaches the processes that the program left.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    if status is None:
        os.waitpid(child, 0)
    lines = [json.loads(line) for line in data.splitlines() if line.endswith(b"}")]
    *results, last = [line for line in lines if line != _BEGIN] or [None]
    if last == _END:
        return results
    done = results if last is None else [*results, last]
    if status is None:
        return [*done, _timeout(request, request["job"]["runs"][len(done)])]
    if _crashed(status) and has_stacks(_log(request)):
        # `faulthandler` reads the frames of threads that go on, which can end the process; the time was over.
        return [*done, _timeout(request, request["job"]["runs"][len(done)])]
    cause = Cause.CRASH if _crashed(status) else Cause.UNABLE
    return [*done, _failed(f"the program {_ending(status)}{tail(Path(request['log']))}", cause)]


def _child(request: dict[str, Any], writing: int) -> None:
    """Never returns."""
    gc.freeze()  # what the server has loaded is no garbage: to look at it would copy its pages
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.set_blocking(writing, True)
    try:
        watch = partial(faulthandler.dump_traceback_later, 0.9 * request["timeout_s"], file=2)
        watch()  # where the program waits without end, the log tells the line
        for result in chain(_results(request["job"]), (_END,)):
            watch()
            data = json.dumps(result).encode() + b"\n"
            while data:
                data = data[os.write(writing, data) :]
    except BaseException:
        with suppress(Exception):
            traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # the program may have closed or replaced it
                stream.flush()
        # Not sys.exit: threads and callbacks that the program left waiting must not keep it alive.
        os._exit(0)


def _collect(child: int, reading: int, timeout_s: float) -> tuple[bytes, int | None]:
    """Return what the child wrote and its wait status; no status if one run took too long."""
    data = b""
    limit = time.monotonic() + timeout_s
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        with suppress(BlockingIOError):
            while chunk := os.read(reading, 1 << 16):
                data += chunk
                limit = time.monotonic() + timeout_s
        if ended:
            return data, status
        if time.monotonic() > limit:
            return data, None
        time.sleep(_POLL_S)


def _ending(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


def _crashed(status: int) -> bool:
    return -os.waitstatus_to_exitcode(status) in _CRASHES


def _timeout(request: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    where, cause = stuck_at(_log(request), run["path"])
    return _failed(f"the program did not end within {request['timeout_s']:g} s{where}", cause)


def _log(request: dict[str, Any]) -> str:
    log = Path(request["log"])
    return log.read_text("utf-8", errors="replace") if log.exists() else ""


def _results(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the runs of the job in their order, up to the first that leaves the GPU in an unknown state."""
    try:
        driver = Driver()
        driver.activate()
    except (DriverUnavailableError, DriverError) as error:
        yield _failed(str(error))
        return
    yield _BEGIN
    before = Before(Variables(driver), Pinned(driver))
    for number, run in enumerate(job["runs"]):
        if number:
            _forget(driver, before.pinned)
        result = _result(driver, job, run, before)
        yield result
        if result["status"] != "returned" or any(e["code"] != NOT_READY for e in result["errors"]):
            return


@dataclass(frozen=True, slots=True)
class Before:
    """What earlier runs of the process leave to later ones."""

    variables: Variables
    pinned: Pinned
    called: set[tuple[str, str]] = field(default_factory=set)

    def see(self, value: object) -> None:
        """Look at what a call returned."""
        self.variables.see(value)
        self.pinned.see(value)

    def must_call(self, run: dict[str, Any], tree: ast.Module) -> bool:
        """Whether the function is to be called once before its run."""
        key = run["path"], run["function"]
        needed = _COMPILING if key in self.called else (*_COMPILING, *_LOADING)
        self.called.add(key)
        return run["rehearsal"] is not None and any(imports(tree, one) for one in needed)


def _result(driver: Driver, job: dict[str, Any], run: dict[str, Any], before: Before) -> dict[str, Any]:
    path = Path(run["path"])
    try:
        source = importlib.util.decode_source(path.read_bytes())
        purpose = Purpose(run["purpose"])
        hold = Hold(run["hold"])
        places = _place(run["earlier"]), _place(run["later"])
        tree = instrument(source, str(path), *places, purpose, late=hold is Hold.LATE)
        if imports(tree, "torch"):
            _warm_torch()
        gate = Gate(driver, run["delay_ms"])
        mode = Mode(run["mode"])
        past = _past(purpose, mode, driver)
        probe = Probe(mode, driver, gate, run["turn"], str(path), past, hold=hold)
        probe.on_made = before.pinned.see
        call = Switch(probe)
        seed_again()
        function = _load(tree, path, Path(job["root"]), run["function"], call)
        if before.must_call(run, tree):
            # To compile takes longer than a gate holds, and to load may wait for the device.
            first = _first_probe(Mode(run["rehearsal"]), driver, gate, before, purpose)
            _rehearse(function, call, driver, first)
            call.probe = probe
            del first  # and what it kept
            before.variables.restore()
            _forget(driver, before.pinned)
    except ImportError as error:
        return _failed(f"the program needs {error.name or 'a module'}, which cannot be imported: {error}")
    except (OSError, SyntaxError, AttributeError, LookupError, DriverError) as error:
        return _failed(str(error))
    _hook_callback_exceptions(probe)
    result = _call(function, probe, driver, gate)
    result["errors"] = [asdict(e) for e in probe.errors]
    return {**result, "environment": _environment(driver)}


def _first_probe(mode: Mode, driver: Driver, gate: Gate, before: Before, purpose: Purpose) -> Probe:
    """That of a call before the run itself."""
    probe = Probe(mode, driver, gate, past=_past(purpose, mode, driver))
    probe.on_made = before.see
    return probe


def _past(purpose: Purpose, mode: Mode, driver: Driver) -> Past | None:
    return Past(driver, keeps=mode.serialized) if purpose is Purpose.STALE else None


class Switch:
    """What the program knows as ``__streamlint__``: one probe for the rehearsal, another for the run."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self.probe, name)


def _rehearse(function: Callable[[], object], call: Switch, driver: Driver, probe: Probe) -> None:
    call.probe = probe
    seed_again()
    with suppress(Exception):  # the run itself reports it
        function()
    with suppress(DriverError):
        driver.synchronize()


def _call(function: Callable[[], object], probe: Probe, driver: Driver, gate: Gate) -> dict[str, Any]:
    seed_again()
    # The user's function may raise anything at all; what it raised is the result.
    try:
        value = function()
        gate.release()
        driver.synchronize()
        leaves = snapshot(value)
    except Exception as error:
        gate.release()
        probe.raised(error)
        text = f"{type(error).__name__}: {error}"[:400]
        return {"status": "raised", "error": text, "threads": probe.threads}
    return {
        "status": "returned",
        "value": leaves,
        "held": probe.reached,
        "overtaken": probe.overtaken,
        "outlasted": probe.outlasted,
        "others": [hold.value for hold in probe.others],
        "watched": probe.watched,
        "waited_s": probe.waited_s,
        "expired": probe.expired,
        "threads": probe.threads,
    }


def _failed(reason: str, cause: Cause = Cause.UNABLE) -> dict[str, Any]:
    return {"status": "failed", "reason": reason, "cause": cause.value}


def _place(data: list[Any] | None) -> Place | None:
    return None if data is None else Place(data[0], data[1])


def _load(tree: ast.Module, path: Path, root: Path, name: str, probe: Switch) -> Callable[[], object]:
    """Import the instrumented file as the module that it is, and find ``function`` or ``Class.method``."""
    module_name, folder = _module_name(path, root)
    for importable in (str(root), str(folder)):
        if importable not in sys.path:
            sys.path.insert(0, importable)
    module = types.ModuleType(module_name)
    module.__file__ = str(path)
    module.__package__ = module_name.rpartition(".")[0]
    setattr(module, PROBE, probe)
    sys.modules[module_name] = module
    exec(compile(tree, str(path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    found: Any = module
    for part in name.split("."):
        if isinstance(found, type):
            found = found()
        found = getattr(found, part, None)
        if found is None:
            raise LookupError(f"{path.name} defines no {name}")
    if not callable(found):
        raise LookupError(f"{name} is not a function")
    return found  # type: ignore[no-any-return]


def _module_name(path: Path, root: Path) -> tuple[str, Path]:
    """The dotted name, so that relative imports work, and the folder to import it from."""
    parts = [path.stem]
    folder = path.parent
    while (folder / "__init__.py").exists() and folder not in (root, folder.parent):
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts), folder


def imports(tree: ast.Module, package: str) -> bool:
    """Whether the program imports ``package`` or a part of it, anywhere."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names) if any(n.name.split(".")[0] == package for n in names):
                return True
            case ast.ImportFrom(module=str(module), level=0) if module.split(".")[0] == package:
                return True
            case _:
                pass
    return False


@cache
def _warm_torch() -> None:
    try:
        import torch
    except ImportError:
        return  # the program's own import reports it
    if not torch.cuda.is_available():
        return
    warm(torch)
    torch.cuda.empty_cache()


def _forget(driver: Driver, pinned: Pinned) -> None:
    """Give memory back and overwrite it, so that the next run does not find this one's results there."""
    gc.collect()
    # `with cuda.gpus[1]:` of Numba leaves no context behind.
    driver.ensure_context()
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        # A block of pinned memory would be handed out again as it is, with this run's results in it.
        cupy.get_default_pinned_memory_pool().free_all_blocks()
        for device in driver.active_devices():
            with cupy.cuda.Device(device):  # the call is about the pool of the current one
                cupy.get_default_memory_pool().free_all_blocks()
    driver.trim_pools()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        # Only this private function gives cached pinned memory back.
        getattr(torch._C, "_host_emptyCache", lambda: None)()
        _overwrite_cached(torch, driver)
    pinned.overwrite(_POISON)


def _overwrite_cached(torch: Any, driver: Driver) -> None:  # noqa: ANN401
    """Overwrite what is free, also beside blocks in use: what a module keeps shares its segment."""
    for segment in torch.cuda.memory_snapshot():
        of_graph = segment.get("segment_pool_id", (0, 0)) != (0, 0)
        if of_graph or segment.get("is_expandable", False):
            continue
        with driver.on(segment["device"]):
            start = segment["address"]
            for block in segment["blocks"]:
                if block["state"] == "inactive":
                    driver.fill(start, block["size"], _POISON)
                start += block["size"]
    torch.cuda.empty_cache()


def _hook_callback_exceptions(probe: Probe) -> None:
    def hook(info: sys.UnraisableHookArgs) -> None:
        probe.raised(info.exc_value)
        sys.__unraisablehook__(info)

    sys.unraisablehook = hook


def _environment(driver: Driver) -> dict[str, str]:
    versions = {"GPU": driver.device_name(), "CUDA driver API": driver.version()}
    versions["Python"] = sys.version.split()[0]
    for module, package in _PACKAGES.items():
        if module in sys.modules:
            with suppress(PackageNotFoundError):
                versions[package] = getattr(sys.modules[module], "__version__", None) or version(package)
    return versions


_PACKAGES = {
    "torch": "torch",
    "cupy": "cupy",
    "numba": "numba",
    "numba_cuda": "numba-cuda",
    "cuda.bindings": "cuda-bindings",
    "cuda.core": "cuda-core",
    "numpy": "numpy",
}


if __name__ == "__main__":
    serve(sys.argv[1:])
