"""Where the cache is: in the user's own folder for such things. Nothing in a tree has a say in it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from streamlint.files import absolute

VARIABLE = "STREAMLINT_CACHE_DIR"


def default_folder() -> Path | None:
    """The folder that the environment names, or the platform's; None for a user without a home."""
    given = os.environ.get(VARIABLE)
    if given:
        return absolute(Path(given))
    caches = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(caches):  # noqa: PTH117  (a relative one is to be ignored, says the XDG specification)
        return Path(caches, "streamlint")
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local", "streamlint", "cache")
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "streamlint"
