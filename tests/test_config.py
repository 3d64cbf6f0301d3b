"""Configuration, and which files a run looks at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamlint.finding import Confidence
from streamlint.run.discover import discover
from streamlint.settings.config import Config, find_root, load
from streamlint.settings.toml import ConfigError, line_of
from tests.cli_support import SOURCE, finding, install, run

FULL = """\
select = ["SL1"]
ignore = ["SL102"]
min-confidence = "possible"
exclude = ["generated/"]
default-stream = "per-thread"
jobs = 2
[per-file-ignores]
"tests/" = ["ALL"]
"""


def test_every_key_of_the_full_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "streamlint.toml").write_text(FULL)
    assert load(tmp_path) == Config(
        select=("SL1",),
        ignore=("SL102",),
        min_confidence=Confidence.POSSIBLE,
        exclude=("generated/",),
        default_stream="per-thread",
        per_file_ignores=(("tests/", ("ALL",)),),
        jobs=2,
    )


def test_streamlint_toml_comes_before_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.streamlint]\njobs = 5\n")
    assert load(tmp_path) == Config(jobs=5)
    (tmp_path / "streamlint.toml").write_text(FULL)
    assert load(tmp_path).jobs == 2


def test_defaults_without_a_file_or_a_table(tmp_path: Path) -> None:
    assert load(tmp_path) == Config()
    (tmp_path / "pyproject.toml").write_text("[tool.other]\nx = 1\n")
    assert load(tmp_path) == Config()


def test_a_file_of_any_name_may_hold_either_form(tmp_path: Path) -> None:
    path = tmp_path / "lint.toml"
    path.write_text("jobs = 3\n")
    assert load(tmp_path, path).jobs == 3
    path.write_text("[tool.streamlint]\njobs = 4\n")
    assert load(tmp_path, path).jobs == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('selct = ["SL1"]', "`tool.streamlint.selct` is not a known key; did you mean `select`?"),
        ('select = "SL1"', "`tool.streamlint.select` must be a list of strings"),
        ("ignore = [1]", "`tool.streamlint.ignore` must be a list of strings"),
        ("jobs = true", "`tool.streamlint.jobs` must be a whole number"),
        ("jobs = -1", "`tool.streamlint.jobs` must be a whole number"),
        ('min-confidence = "high"', "`tool.streamlint.min-confidence` must be one of"),
        ('default-stream = "ptds"', "must be one of legacy, per-thread, not 'ptds'"),
        ("min-confidence = []", "`tool.streamlint.min-confidence` must be one of"),
        ('per-file-ignores = ["x"]', "`tool.streamlint.per-file-ignores` must be a table"),
        ('per-file-ignores = { "a.py" = "SL1" }', "`tool.streamlint.per-file-ignores.a.py` must be a list"),
        ('exclude = ["!"]', "`tool.streamlint.exclude` holds a pattern"),
        ('[[tool.streamlint.model]]\nname = "x"', "`tool.streamlint.model` is not supported yet"),
        ("jobs = ", "not valid TOML"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.streamlint]\n{text}\n")
    with pytest.raises(ConfigError) as raised:
        load(tmp_path)
    assert str(raised.value).startswith(f"{tmp_path / 'pyproject.toml'}:")
    assert message in str(raised.value)
    assert ":2: " in str(raised.value) or "line 2" in str(raised.value)


KEYS = r"""# jobs = 1
select = [
    "SL1",  # ] and [ in a comment
    'SL2]',
]
note = '''
jobs = 2'''
text = ~
[tool]
\~ "" ~~
jobs = 3
"quoted key".inner = { deep = [{ a = 1 }] }
[tool.streamlint]
exclude = ["}", '{']
  [tool.streamlint."per-file-ignores"]
  "a b.py" = ["SL1"]
[[tool.streamlint.model]]
name = "x"
[tool."x]y"]
z = 2020-01-01T10:00:00
""".replace("~~", '""""').replace("~", '"""')
"""``~`` is three quotes: a text may hold two, begin with a masked one, and end with a fourth."""


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("select",), 2),
        (("note",), 6),
        (("text",), 8),
        (("jobs",), 11),
        (("quoted key", "inner", "deep"), 12),
        (("tool", "streamlint"), 13),
        (("tool", "streamlint", "exclude"), 14),
        (("tool", "streamlint", "per-file-ignores"), 15),
        (("tool", "streamlint", "per-file-ignores", "a b.py"), 16),
        (("tool", "streamlint", "model"), 17),
        (("tool", "x]y", "z"), 20),
        (("tool", "streamlint", "jobs"), None),
        (("quoted key", "inner", "deep", "a"), None),
    ],
)
def test_the_line_of_a_key(key: tuple[str, ...], line: int | None, ends: str) -> None:
    assert line_of(KEYS.replace("\n", ends), key) == line


def test_a_line_is_found_in_a_text_of_any_size() -> None:
    """A reader that went back to the beginning for each line would be at it for minutes."""
    many = "".join(f'    "generated/{number}.py",\n' for number in range(20_000))
    assert line_of(f"exclude = [\n{many}]\njobs = true\n", ("jobs",)) == 20_003


def test_a_mistake_ends_the_run_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch)
    (tmp_path / "a.py").write_text("")
    (tmp_path / "streamlint.toml").write_text("colour = 1\n")
    result = run(capsys, tmp_path)
    assert result.status == 2
    assert "`colour` is not a known key" in result.err
    (tmp_path / "streamlint.toml").write_text('ignore = ["SL77"]\n')
    assert "streamlint.toml:1: `ignore` holds an unknown rule or prefix `SL77`" in run(capsys, tmp_path).err
    missing = run(capsys, tmp_path, "--config", tmp_path / "none.toml")
    assert "none.toml: No such file or directory" in missing.err


def test_options_win_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = install(monkeypatch, [finding(), finding("SL102")])
    (tmp_path / "train.py").write_text(SOURCE)
    (tmp_path / "streamlint.toml").write_text('select = ["SL102"]\ndefault-stream = "per-thread"\njobs = 4\n')
    concise = (tmp_path, "--output-format", "concise", "-q")
    assert [line.split()[1] for line in run(capsys, *concise).out.splitlines()] == ["SL102"]
    assert (engine.settings.jobs, engine.settings.default_stream) == (4, "per-thread")
    assert "SL101" in run(capsys, *concise, "--select", "SL101", "--jobs", "1").out
    assert engine.settings.jobs == 1


def test_per_file_ignores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, [finding(path="tests/train.py"), finding("SL102", path="tests/train.py"), finding()])
    for name in ("train.py", "tests/train.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(SOURCE)
    (tmp_path / "streamlint.toml").write_text('[per-file-ignores]\n"tests/" = ["sl101"]\n')
    out = run(capsys, tmp_path, "--output-format", "concise", "--paths-from", "root").out
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["tests/train.py:8:8:", "SL102"],
        ["train.py:8:8:", "SL101"],
    ]


def test_the_root_is_the_nearest_marked_folder(tmp_path: Path) -> None:
    (tmp_path / "repo" / "pkg" / "sub").mkdir(parents=True)
    (tmp_path / "repo" / "pkg" / "a.py").write_text("")
    paths = [tmp_path / "repo" / "pkg" / "a.py", tmp_path / "repo" / "pkg" / "sub"]
    assert find_root(paths) == (tmp_path / "repo" / "pkg", False)
    (tmp_path / "repo" / ".git").mkdir()
    assert find_root(paths) == (tmp_path / "repo", True)
    (tmp_path / "repo" / "pkg" / "pyproject.toml").write_text("")
    assert find_root(paths) == (tmp_path / "repo" / "pkg", True)


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")


def found(root: Path, *paths: str, exclude: tuple[str, ...] = ()) -> list[str]:
    discovered = discover([root / path for path in paths or (".",)], root, exclude)
    assert not discovered.missing
    return [path.relative_to(root).as_posix() for path in discovered.files]


def test_folders_of_other_code_are_skipped_unless_named(tmp_path: Path) -> None:
    make(
        tmp_path,
        "src/a.py",
        "src/a.pyi",
        "src/notes.txt",
        "build/lib/a.py",
        ".venv/lib/site-packages/torch/x.py",
        "env/lib/y.py",
        "env/pyvenv.cfg",
        "environment/z.py",
        "pkg.egg-info/p.py",
    )
    assert found(tmp_path) == ["environment/z.py", "src/a.py"]
    assert found(tmp_path, ".venv/lib/site-packages/torch") == [".venv/lib/site-packages/torch/x.py"]
    assert found(tmp_path, "env") == ["env/lib/y.py"]


def test_a_named_file_needs_no_suffix(tmp_path: Path) -> None:
    make(tmp_path, "bin/train", "build/a.py")
    assert found(tmp_path, "bin/train", "build/a.py") == ["bin/train", "build/a.py"]


def test_gitignore_files_nest_and_may_include_again(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    make(
        tmp_path, "gen/a.py", "pkg/gen/b.py", "pkg/keep_gen.py", "pkg/x_gen.py", "pkg/sub/x_gen.py", "top.py"
    )
    (tmp_path / ".gitignore").write_text("/gen/\n*_gen.py\n!keep_gen.py\n!\n")
    (tmp_path / "pkg" / "sub" / ".gitignore").write_text("!x_gen.py\n")
    assert found(tmp_path) == ["pkg/gen/b.py", "pkg/keep_gen.py", "pkg/sub/x_gen.py", "top.py"]
    assert found(tmp_path, "pkg") == ["pkg/gen/b.py", "pkg/keep_gen.py", "pkg/sub/x_gen.py"]


def test_a_named_folder_that_git_ignores_is_walked(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    make(tmp_path, "out/pkg/a.py", "out/pkg/tmp/b.py")
    (tmp_path / ".gitignore").write_text("out/\n")
    (tmp_path / "out" / "pkg" / ".gitignore").write_text("tmp/\n")
    assert found(tmp_path) == []
    assert found(tmp_path, "out/pkg") == ["out/pkg/a.py"]


def test_exclude_holds_for_named_files_too(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "third_party/b.py", "third_party/keep.py")
    exclude = ("third_party/*", "!third_party/keep.py")
    assert found(tmp_path, exclude=exclude) == ["a.py", "third_party/keep.py"]
    assert found(tmp_path, "third_party/b.py", "a.py", exclude=exclude) == ["a.py"]
    assert found(tmp_path, "third_party", exclude=("third_party/",)) == []


def test_links_lead_neither_in_circles_nor_twice_to_a_file(tmp_path: Path) -> None:
    make(tmp_path, "pkg/a.py")
    (tmp_path / "pkg" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "pkg" / "same.py").symlink_to(tmp_path / "pkg" / "a.py")
    (tmp_path / "pkg" / "broken.py").symlink_to(tmp_path / "nowhere.py")
    assert found(tmp_path, ".", "pkg", "pkg/a.py") == ["pkg/a.py"]


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert found(tmp_path) == []
    assert discover([tmp_path / "pipe.py"], tmp_path).missing == (tmp_path / "pipe.py",)


def test_paths_are_shown_from_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = install(monkeypatch)
    make(tmp_path, "repo/pkg/a.py")
    (tmp_path / "repo" / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path / "repo" / "pkg")
    run(capsys, "a.py", Path(".."))
    assert (engine.root, engine.names()) == (tmp_path / "repo", ["pkg/a.py"])
