"""``streamlint completion``: the scripts are those of the command lines, and shells complete with them."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from streamlint.cli import COMMANDS, main
from streamlint.completion import FOLDER, SHELLS

if TYPE_CHECKING:
    from pathlib import Path

BASH = """\
source {script}
words=({words})
COMP_WORDS=("${{words[@]}}" {last})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
COMP_LINE="${{COMP_WORDS[*]}}"
COMP_POINT=${{#COMP_LINE}}
$(complete -p streamlint | sed -E 's/.*-F ([^ ]+).*/\\1/') streamlint {last} ''
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """\
zmodload zsh/zpty
zpty -b z zsh -f -i
zpty -w z 'PROMPT=; fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D'
zpty -w z 'zstyle ":completion:*" menu no; LISTMAX=10000; stty columns 200; echo READ''Y'
while zpty -r z line; do [[ $line == *READY* ]] && break; done
zpty -w -n z '{line}'$'\\t'
sleep 3
zpty -w -n z $'\\t'
sleep 2
while zpty -r -t z line; do print -r -- $line; done
zpty -d z
"""


def run(*command: str, folder: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, check=False)
    return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text("", "utf-8")
    return tmp_path


def completed(shell: str, line: str, folder: Path) -> str:
    """What a shell offers for an unfinished line."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = FOLDER / f"streamlint.{shell}"
    *words, last = line.split(" ")
    match shell:
        case "bash":
            text = BASH.format(script=script, words=" ".join(words), last=f"'{last}'")
            return run("bash", "--norc", "-c", text, folder=folder)
        case "fish":
            text = f"source {script}; complete -C '{line}'"
            return run("fish", "--no-config", "-c", text, folder=folder)
        case _:
            functions = folder / "functions"
            functions.mkdir()
            shutil.copy(script, functions / "_streamlint")
            return run("zsh", "-f", "-c", ZSH.format(folder=functions, line=line), folder=folder)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("streamlint ch", "check"),
        ("streamlint check --output-f", "--output-format"),
        ("streamlint check --output-format sa", "sarif"),
        ("streamlint check --select unordered-r", "unordered-read"),
        ("streamlint check --select SL101,unordered-r", "SL101,unordered-read"),
        ("streamlint check prog", "program.py"),
        ("streamlint prog", "program.py"),
        ("streamlint explain prog", "program.py"),
        ("streamlint explain elapsed", "elapsed-before-sync"),
        ("streamlint graph --all-p", "--all-paths"),
        ("streamlint completion zs", "zsh"),
    ],
)
def test_a_shell_completes(shell: str, line: str, offered: str, folder: Path) -> None:
    assert offered in completed(shell, line, folder)


def test_the_scripts_are_those_of_the_command_lines() -> None:
    pytest.importorskip("shtab")
    from tests.completions import scripts

    for path, script in scripts():
        assert path.read_text("utf-8") == script, "python -m tests.completions"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(command in script for command in COMMANDS)


def test_no_other_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "bash" in capsys.readouterr().err
