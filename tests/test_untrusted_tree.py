"""Nothing of the tree that is checked is imported or run, however streamlint is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parent.parent

# What streamlint, its libraries, checked code, and the parts of Python that start processes import.
NAMES = """
    argparse ast asyncio codecs concurrent conftest cupy dataclasses difflib encodings enum faulthandler
    gettext inspect json linecache locale logging networkx numba numpy pathspec pickle platform queue
    random secrets selectors shutil signal sitecustomize socket struct subprocess tempfile threading token
    tokenize tomllib torch traceback typing typing_extensions usercustomize yaml zlib
""".split()
# What Python itself imports from the current folder for `python -m`: only `python -P -m` keeps it from that.
BEFORE_US = ["contextlib", "importlib", "io", "os", "runpy", "streamlint", "types", "warnings"]

AUDIT = '''\
"""Every process of the test is watched: what it runs that lies in the tree, and which programs it starts."""

import os, sys

TREE, LOG = os.environ["AUDITED_TREE"], os.environ["AUDIT_LOG"]

def note(line):
    file = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, (line + "\\n").encode())
    os.close(file)

def watch(event, args):
    if event == "exec" and args[0].co_filename.startswith(TREE):
        note("ran " + args[0].co_filename)
    elif event == "import" and str(args[1]).startswith(TREE):
        note("imported " + args[1])
    elif event in ("os.exec", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"):
        note("started " + " ".join(map(str, args[1])))
    elif event in ("os.fork", "os.forkpty"):
        note("forked")

sys.addaudithook(watch)
note("watched")
'''

GPU = """\
import json
import torch

def early(x: torch.Tensor):
    side = torch.cuda.Stream()
    y = torch.ones(4, device="cuda")
    with torch.cuda.stream(side):
        z = y * 2
    return z.sum().item()
"""
PROGRAM = """\
import multiprocessing, sys
if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv.pop(1))
    from streamlint.cli import main
    sys.exit(main())
"""
SCRIPT = "import sys\nfrom streamlint.__main__ import main\nsys.exit(main())\n"
SOME = 4
"""Each fourth file has GPU work; all are read."""
WAYS = ["spawn", "forkserver", "fork", "module", "command"]


def hostile(tree: Path, names: list[str], mark: Path) -> None:
    """A tree in which each of these modules would leave a mark, large enough for several processes."""
    trap = f"open({str(mark)!r}, 'a').write(__file__ + '\\n')\n" + "# nothing\n" * 1_500
    for number, name in enumerate(names):
        (tree / f"{name}.py").write_text(trap + (GPU if number % SOME == 0 else ""), "utf-8")
    (tree / "package").mkdir()
    (tree / "package" / "__init__.py").write_text(trap, "utf-8")
    (tree / "evil.pth").write_text("import package\n", "utf-8")
    (tree / "setup.cfg").write_text("[options]\n", "utf-8")
    (tree / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "package"\nbackend-path = ["."]\n'
        "[tool.streamlint]\njobs = 200\n",
        "utf-8",
    )


def started(way: str, own: Path) -> list[str]:
    if way == "module":
        return [sys.executable, "-m", "streamlint"]
    program = own / f"{way}.py"
    program.write_text(SCRIPT if way == "command" else PROGRAM, "utf-8")
    return [sys.executable, str(program), *([] if way == "command" else [way])]


def run(tmp_path: Path, command: list[str], stdin: str | None = None) -> tuple[str, list[str]]:
    """What a command prints, run in the tree, and what was noted."""
    log, watch = tmp_path / "log", tmp_path / "watch"
    watch.mkdir()
    (watch / "sitecustomize.py").write_text(AUDIT, "utf-8")
    tree = tmp_path / "tree"
    # This package lies outside of the tree; so does what the audit needs.
    path = [str(watch), str(PACKAGES)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "AUDITED_TREE": str(tree),
        "AUDIT_LOG": str(log),
    }
    done = subprocess.run(
        command, cwd=tree, env=environment, input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    return done.stdout, log.read_text("utf-8").splitlines()


@pytest.mark.parametrize("way", WAYS)
def test_no_code_of_the_tree_runs(tmp_path: Path, way: str) -> None:
    own, tree, mark = tmp_path / "own", tmp_path / "tree", tmp_path / "mark"
    own.mkdir()
    tree.mkdir()
    names = NAMES if way == "module" else [*NAMES, *BEFORE_US, "multiprocessing"]
    hostile(tree, names, mark)
    out, noted = run(tmp_path, [*started(way, own), ".", "--output-format", "concise"])
    assert {line.split(":")[0] for line in out.splitlines()} == {f"{name}.py" for name in names[::SOME]}
    assert not mark.exists(), mark.read_text("utf-8")
    watched, others = noted.count("watched"), [line for line in noted if line != "watched"]
    assert [line for line in others if "run/worker.py" not in line] == []
    # All processes were seen, and as many as there are cores at most.
    assert watched == 1 + len(others)
    assert len(others) <= (os.cpu_count() or 1)


def test_no_code_of_the_tree_runs_for_an_editor(tmp_path: Path) -> None:
    tree, mark = tmp_path / "tree", tmp_path / "mark"
    tree.mkdir()
    hostile(tree, NAMES, mark)
    command = [*started("module", tmp_path), "-", "--stdin-filename", "package/new.py"]
    out, noted = run(tmp_path, command, GPU)
    assert "package/new.py:8" in out
    assert not mark.exists(), mark.read_text("utf-8")
    assert noted == ["watched"]
