"""What has to hold before a version is published: `python .ci/release.py v0.1.0`, with the tag."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def problems(tag: str, package: str, changelog: str) -> list[str]:
    """Return what is wrong, given the texts of the package's `__init__.py` and of the changelog."""
    version = re.search(r'^__version__ = "(\d+\.\d+\.\d+)"$', package, re.MULTILINE)
    if version is None:
        return ["streamlint/__init__.py has no `__version__` of three numbers"]
    found = []
    if tag != f"v{version[1]}":
        found.append(f"the tag is {tag}, and the version is {version[1]}")
    heading = re.search(r"^## (.+)$", changelog, re.MULTILINE)
    if heading is None or re.fullmatch(rf"{re.escape(version[1])} \(\d{{4}}-\d\d-\d\d\)", heading[1]) is None:
        first = f"begins with `{heading[1]}`" if heading else "has no heading"
        found.append(f"CHANGELOG.md {first}, and should with `{version[1]} (YEAR-MONTH-DAY)`")
    return found


def main(tag: str) -> int:
    package = (ROOT / "streamlint" / "__init__.py").read_text(encoding="utf-8")
    found = problems(tag, package, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    for problem in found:
        sys.stderr.write(f"{problem}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
