"""A package that looks like cuda-python and needs no GPU, for programs that run in processes of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FAKE = """\
import sys
from tests.fake_cuda import FakeDevice, fake_runtime
vars(sys.modules[__name__]).update(
    {name: value for name, value in vars(fake_runtime(FakeDevice())).items() if not name.startswith("__")}
)
"""


def write_package(folder: Path) -> None:
    """Make ``cuda.bindings.runtime`` importable from a folder."""
    package = folder / "cuda" / "bindings"
    package.mkdir(parents=True)
    (folder / "cuda" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "runtime.py").write_text(_FAKE)
