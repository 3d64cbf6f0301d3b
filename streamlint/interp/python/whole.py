"""All of Python, as the layers below know it."""

from __future__ import annotations

from typing import Final

from streamlint.interp.python import binding, calls, expr, loops, objects, stepping, stmt, stream_sources
from streamlint.interp.state.python import Python

PYTHON: Final = Python(
    call=calls.call,
    evaluate=expr.evaluate,
    run_block=stmt.run_block,
    attribute=objects.attribute,
    run_generator=stepping.run,
    step_generator=stepping.step,
    make_pass=loops.make_pass,
    module_name=binding.module_name,
    stream_of=stream_sources.of_symbol,
)
