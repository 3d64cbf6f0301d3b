"""SL304 deprecated-stream-add-callback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.rules.base import Judged, Problem, Rule
from streamlint.trace import Callback, OpId
from streamlint.witness import NoWitness

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(judged: Judged) -> Iterator[Problem]:
    for number, op in enumerate(judged.trace.ops):
        if isinstance(op, Callback) and op.name == "cudaStreamAddCallback":
            yield Problem(
                later=OpId(number),
                message="`cudaStreamAddCallback` is slated for removal",
                label="deprecated",
                help=(
                    "use `cudaLaunchHostFunc`; "
                    "it passes only the data and does not report errors to the function"
                ),
            )


RULE = Rule(
    code="SL304",
    name="deprecated-stream-add-callback",
    summary="`cudaStreamAddCallback`; use `cudaLaunchHostFunc`",
    severity=Severity.WARNING,
    check=check,
    witness=NoWitness("a deprecated call works as it always did"),
    doc="""\
## What it does
Reports calls of `cudaStreamAddCallback`.

## Why is this bad?
The function is slated for eventual deprecation and removal, holds driver locks while it runs, and
is not allowed during stream capture. `cudaLaunchHostFunc` replaces it.

## Example
```python
cudart.cudaStreamAddCallback(stream, callback, data, 0)
```

Use instead:
```python
cudart.cudaLaunchHostFunc(stream, function, data)
```

## Limits
The new function gets only its data: code that looked at the status must query the error elsewhere.

## Source
[cudaStreamAddCallback](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html).
""",
)
