"""For all tests."""

from __future__ import annotations

import gc
import os

from streamlint.cache.folder import VARIABLE

# No test finds what another one left, and none writes into the user's own folder: this is no folder.
os.environ[VARIABLE] = os.devnull

# Hundreds of processes are started. Where Python is told not to keep what it compiles, each of them compiles
# all that it imports, which takes longer than most of these tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A full collection walks over all test modules; after each analysis Python
# takes all that was alive before for new, which makes them frequent. Here they are rare.
gc.set_threshold(*gc.get_threshold()[:2], 1_000)
