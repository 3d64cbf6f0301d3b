"""For all tests."""

from __future__ import annotations

import os

from streamlint.cache.folder import VARIABLE

# No test finds what another one left, and none writes into the user's own folder: this is no folder.
os.environ[VARIABLE] = os.devnull
