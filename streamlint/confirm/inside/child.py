"""Runs functions: what a process does that ``forks`` has forked for them.

Needs nothing outside the standard library but what the user's program imports, so that it can run
with the interpreter of the user's environment.
"""

from __future__ import annotations

import ast
import gc
import importlib.util
import sys
import types
from contextlib import suppress
from dataclasses import asdict, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from streamlint.confirm.gpu.driver import NOT_READY, Driver, DriverError, DriverUnavailableError
from streamlint.confirm.gpu.gate import Gate
from streamlint.confirm.inside.hold import Hold
from streamlint.confirm.inside.pinned import Pinned
from streamlint.confirm.inside.probe import Mode, Probe
from streamlint.confirm.inside.reuse import Past
from streamlint.confirm.inside.seeds import again as seed_again
from streamlint.confirm.inside.values import snapshot
from streamlint.confirm.inside.variables import Variables
from streamlint.confirm.inside.warm import warm
from streamlint.confirm.terms import Cause
from streamlint.confirm.text.instrument import PROBE, Place, Purpose, instrument
from streamlint.frozen import frozen

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable, Iterator

T = TypeVar("T")

_POISON = 0xA5
BEGIN = {"status": "begin"}
"""The GPU is ready: what that took is no part of the first run's time."""

_COMPILING = ("numba", "cupy", "triton", "warp")
"""They compile or load a kernel at its first launch, and here each run has new kernel objects."""

_LOADING = ("torch",)
"""It loads a kernel at the first launch in a process."""


class Runs:
    """The runs of this process."""

    def __init__(self) -> None:
        self._driver: Driver | None = None
        self._before: Before | None = None
        """Known when something has run."""

    def results(self, job: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Make the runs of the job, up to the first that leaves the GPU in an unknown state."""
        try:
            driver = self._driver = self._driver or _ready()
        except (DriverUnavailableError, DriverError) as error:
            yield failed(str(error))
            return
        yield BEGIN
        for run in job["runs"]:
            if self._before is None:
                self._before = Before(driver, Variables(driver))
            else:
                _forget(driver, self._before.pinned_of(run))
            result = _result(driver, job, run, self._before)
            yield result
            if not goes_on(result):
                return


def goes_on(result: dict[str, Any]) -> bool:
    """Whether there may be other runs in the process after this one."""
    return result["status"] == "returned" and all(error["code"] == NOT_READY for error in result["errors"])


def _ready() -> Driver:
    driver = Driver()
    driver.activate()
    return driver


@frozen()
class Before:
    """What earlier runs of the process leave to later ones."""

    driver: Driver
    variables: Variables
    pinned: dict[tuple[str, str], Pinned] = field(default_factory=dict)
    """By function: what another one had is not what this one is to find."""
    called: set[tuple[str, str]] = field(default_factory=set)
    imported: dict[Path, frozenset[str]] = field(default_factory=dict)
    gates: dict[int, ctypes.c_void_p] = field(default_factory=dict)
    """The kernel of all gates, by context: to compile it takes longer than a small run."""

    def pinned_of(self, run: dict[str, Any]) -> Pinned:
        return self.pinned.setdefault(_function_of(run), Pinned(self.driver))

    def seeing(self, pinned: Pinned) -> Callable[[object], None]:
        """What looks at the results of calls before the run."""

        def see(value: object) -> None:
            self.variables.see(value)
            pinned.see(value)

        return see

    def must_call(self, run: dict[str, Any], libraries: frozenset[str]) -> bool:
        """Whether the function is to be called once before its run."""
        key = _function_of(run)
        needed = _COMPILING if key in self.called else (*_COMPILING, *_LOADING)
        self.called.add(key)
        return run["rehearsal"] is not None and not libraries.isdisjoint(needed)

    def libraries(self, path: Path, tree: ast.Module) -> frozenset[str]:
        """Those of the libraries that need something before a run which the file imports."""
        if path not in self.imported:
            self.imported[path] = frozenset(one for one in (*_COMPILING, *_LOADING) if imports(tree, one))
        return self.imported[path]


def _result(driver: Driver, job: dict[str, Any], run: dict[str, Any], before: Before) -> dict[str, Any]:
    path = Path(run["path"])
    try:
        source = importlib.util.decode_source(path.read_bytes())
        purpose = Purpose(run["purpose"])
        hold = Hold(run["hold"])
        places = _place(run["earlier"]), _place(run["later"])
        tree = instrument(source, str(path), *places, purpose, late=hold is Hold.LATE)
        libraries = before.libraries(path, tree)
        if "torch" in libraries:
            _warm_torch()
        gate = Gate(driver, run["delay_ms"], before.gates)
        mode = Mode(run["mode"])
        past = _past(purpose, mode, driver)
        probe = Probe(mode, driver, gate, run["turn"], str(path), past, hold=hold)
        pinned = before.pinned_of(run)
        probe.on_made = pinned.see
        call = Switch(probe)
        seed_again()
        function = _load(tree, path, Path(job["root"]), run["function"], call)
        if before.must_call(run, libraries):
            # To compile takes longer than a gate holds, and to load may wait for the device.
            rehearsal = Mode(run["rehearsal"])
            first = Probe(rehearsal, driver, gate, past=_past(purpose, rehearsal, driver))
            first.on_made = before.seeing(pinned)
            _rehearse(function, call, driver, first)
            call.probe = probe
            del first  # and what it kept
            before.variables.restore()
            _forget(driver, pinned)
    except ImportError as error:
        return failed(f"the program needs {error.name or 'a module'}, which cannot be imported: {error}")
    except (OSError, SyntaxError, AttributeError, LookupError, DriverError) as error:
        return failed(str(error))
    _hook_callback_exceptions(probe)
    result = _call(function, probe, driver, gate)
    result["errors"] = [asdict(e) for e in probe.errors]
    return {**result, "environment": _environment(driver)}


def _function_of(run: dict[str, Any]) -> tuple[str, str]:
    return run["path"], run["function"]


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


def failed(reason: str, cause: Cause = Cause.UNABLE) -> dict[str, Any]:
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
    for device in driver.active_devices():
        # The allocator looks only now whether the streams of ``record_stream`` are done with what was freed.
        torch.empty(1, device=torch.device("cuda", device))
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
    "warp": "warp-lang",
    "numpy": "numpy",
}
