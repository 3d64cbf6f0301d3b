"""Makes experiments: ``python -m streamlint.confirm.doctor.child LIBRARY``.

Imports the library, if one is named, and then reads a line with the experiments to make, as pairs
of numbers (group, axiom). Answers each with a line of JSON. Needs nothing but the standard library
and what it is to measure.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from streamlint.confirm.doctor.axiom import Result, SkippedError, Verdict
from streamlint.confirm.doctor.lab import Lab
from streamlint.confirm.doctor.table import GROUPS
from streamlint.confirm.gpu.driver import Driver, DriverError, DriverUnavailableError

if TYPE_CHECKING:
    from streamlint.confirm.doctor.axiom import Axiom

_DISTRIBUTIONS = {
    "torch": "torch",
    "cupy": "cupy",
    "numba.cuda": "numba-cuda",
    "cuda.core": "cuda-core",
    "cuda.bindings.runtime": "cuda-bindings",
}


def main(library: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer

    def answer(**data: object) -> None:
        print(json.dumps(data), file=answers, flush=True)

    missing = ""
    if library:
        try:
            # Slow, and before the line is read: other experiments are made meanwhile.
            module = importlib.import_module(library)
        except Exception as error:  # a library that is installed, and broken, raises anything
            missing = f"{library} cannot be imported: {type(error).__name__}: {error}"[:300]
        else:
            answer(library=_DISTRIBUTIONS[library], version=_version(library, module))
    wanted = json.loads(sys.stdin.readline() or "[]")
    if missing:
        answer(fatal=missing)
        return
    try:
        driver = Driver()
        devices = driver.device_count()
        lab = Lab(driver)
    except (DriverUnavailableError, DriverError) as error:
        answer(fatal=str(error))
        return
    for group, number in wanted:
        result = perform(lab, GROUPS[group].axioms[number], devices)
        answer(result=[result.verdict.value, result.measured, round(result.seconds, 4)])
        try:
            lab.clean()
        except DriverError:
            break  # a sticky error: the next experiment needs another process
    answers.flush()
    # Not sys.exit: libraries free what a failed experiment has already lost.
    os._exit(0)


def _version(library: str, module: object) -> str:
    try:
        return version(_DISTRIBUTIONS[library])
    except PackageNotFoundError:
        return str(getattr(module, "__version__", "unknown"))


def perform(lab: Lab, axiom: Axiom, devices: int) -> Result:
    """One experiment; never raises."""
    if devices < axiom.devices:
        return Result(Verdict.NOT_TESTED, "needs two GPUs")
    start = time.monotonic()
    try:
        measured = axiom.measure(lab)
    except SkippedError as reason:
        return Result(Verdict.NOT_TESTED, str(reason))
    except DriverError as error:
        return Result(Verdict.FAILS, str(error), time.monotonic() - start)
    except Exception as error:  # a library of another version has other names, and raises anything
        return Result(Verdict.NOT_TESTED, f"{type(error).__name__}: {error}"[:300], time.monotonic() - start)
    verdict = Verdict.HOLDS if measured == axiom.expected else Verdict.FAILS
    return Result(verdict, measured, time.monotonic() - start)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
