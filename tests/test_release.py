"""What is released: the same bytes each time, the package alone, under the version that it says."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamlint import __version__

if TYPE_CHECKING:
    from types import ModuleType

HERE = Path(__file__).parent.parent
PARTS = (
    "streamlint",
    "docs",
    "examples",
    "templates",
    "README.md",
    "LICENSE",
    "pyproject.toml",
    "CHANGELOG.md",
)


def built(folder: Path, umask: int) -> tuple[Path, Path]:
    """Build in a copy of what is released, and return the wheel and the sdist."""
    source = folder / "source"
    source.mkdir(parents=True)
    for part in PARTS:
        if (HERE / part).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(HERE / part, source / part, ignore=ignored, copy_function=shutil.copyfile)
        else:
            shutil.copyfile(HERE / part, source / part)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=source,
        env={name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"},
        umask=umask,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return wheel, sdist


def test_two_builds_are_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    first, second = built(tmp_path / "a", 0o022), built(tmp_path / "another", 0o077)
    for one, other in zip(first, second, strict=True):
        assert one.name == other.name
        assert one.read_bytes() == other.read_bytes()
    with zipfile.ZipFile(first[0]) as wheel:
        assert {name.partition("/")[0] for name in wheel.namelist()} == {
            "streamlint",
            f"streamlint-{__version__}.dist-info",
        }
    with tarfile.open(first[1]) as sdist:
        assert any(name.endswith("/docs/tutorial.md") for name in sdist.getnames())


def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", HERE / ".ci" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("tag", "heading", "problem"),
    [
        ("v1.2.3", "1.2.3 (2027-01-31)", None),
        ("v1.2.4", "1.2.3 (2027-01-31)", "the tag is v1.2.4, and the version is 1.2.3"),
        ("1.2.3", "1.2.3 (2027-01-31)", "the tag is 1.2.3, and the version is 1.2.3"),
        ("v1.2.3", "1.2.3 (not released yet)", "CHANGELOG.md begins with `1.2.3 (not released yet)`"),
        ("v1.2.3", "1.2.2 (2027-01-31)", "CHANGELOG.md begins with `1.2.2 (2027-01-31)`"),
    ],
)
def test_tag_version_and_changelog_fit_together(tag: str, heading: str, problem: str | None) -> None:
    found = release().problems(tag, '"""Doc."""\n__version__ = "1.2.3"\n', f"# Changelog\n\n## {heading}\n")
    assert len(found) == (problem is not None)
    assert problem is None or found[0].startswith(problem)


def test_the_changelog_is_about_this_version() -> None:
    found = release().problems(
        f"v{__version__}",
        (HERE / "streamlint" / "__init__.py").read_text(encoding="utf-8"),
        (HERE / "CHANGELOG.md").read_text(encoding="utf-8").replace("(not released yet)", "(2027-01-31)"),
    )
    assert found == []


def test_no_page_installs_a_name_that_is_not_ours() -> None:
    """Until the first release only a checkout can be installed; docs/releasing.md says what changes then."""
    pages = [
        *HERE.glob("*.md"),
        *(HERE / "docs").rglob("*.md"),
        HERE / "action.yml",
        *HERE.glob("templates/*"),
    ]
    installs = (
        "install streamlint",
        "install 'streamlint",
        'install "streamlint',
        "uvx streamlint",
        "add streamlint",
    )
    wrong = [
        f"{page.name}: {line.strip()}"
        for page in pages
        for line in page.read_text(encoding="utf-8").splitlines()
        if any(words in line for words in installs) and page.name != "releasing.md"
    ]
    assert not wrong
