"""``python -m streamlint.confirm.inside.launch script.py ...``: a script with probes, as ``__main__``."""

from __future__ import annotations

import os
import sys
import types
from importlib.machinery import SourceFileLoader

from streamlint.confirm.inside.hook import installed


def main() -> None:
    """Do what ``python script.py`` does."""
    weaver = installed()
    del sys.argv[0]
    script = sys.argv[0]
    if weaver is None:
        raise SystemExit("streamlint.confirm.inside.launch is part of `streamlint confirm`")
    sys.path[0] = os.path.dirname(os.path.abspath(script))  # noqa: PTH100, PTH120 as the interpreter does
    code = weaver.code(script)
    module = types.ModuleType("__main__")
    module.__file__ = script
    module.__loader__ = SourceFileLoader("__main__", script)
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    # This module is `__main__` until here; its functions need their globals to the end.
    sys.modules["streamlint.confirm.inside.launch"] = sys.modules["__main__"]
    sys.modules["__main__"] = module
    exec(code, module.__dict__)  # noqa: S102


if __name__ == "__main__":
    main()
