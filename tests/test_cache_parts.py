"""What of another module a kept result rests on: functions that were looked at, and the text around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.test_cache import RACY, TWO, noted, report
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path

    from tests.test_cache import Done


@pytest.fixture
def analyzed(monkeypatch: pytest.MonkeyPatch) -> Done:
    return noted(monkeypatch)


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        pytest.param(
            TWO.replace("total = count * 2", "total = count * 2\n    # twice"), False, id="a comment"
        ),
        pytest.param(TWO.replace("    total", "    once = count\n    total", 1), False, id="a variable more"),
        pytest.param(TWO.replace("def counted", "\n\ndef counted"), True, id="text between functions"),
        pytest.param(
            TWO.replace("count * 2", "count.numel()"), True, id="another name that others may ask for"
        ),
        pytest.param(TWO.replace("x * 2", "x * 3"), True, id="the function that is called"),
        pytest.param("import os\n" + TWO, True, id="an import"),
        pytest.param(TWO + "\ndef more(x):\n    return x\n", True, id="a function more"),
    ],
)
def test_what_nobody_looked_at_may_change(tmp_path: Path, analyzed: Done, changed: str, again: bool) -> None:
    root, cache = tmp_path / "tree", tmp_path / "cache"
    user = RACY.replace("prepared(batch) + 1", "batch * 2").replace(
        "self):", "self, x):\n        prepared(x)"
    )
    written(root, {"racy.py": user, "helper.py": TWO})
    before = report(root, cache)
    assert {finding.primary.path for finding in before.findings} == {"racy.py"}
    analyzed.clear()
    (root / "helper.py").write_text(changed)
    after = report(root, cache)
    assert ("racy.py" in analyzed) is again
    assert after == report(root, None)
    analyzed.clear()
    assert report(root, cache) == after
    assert analyzed == [], "it is known now"


def test_a_result_that_names_a_file_rests_on_its_lines(tmp_path: Path, analyzed: Done) -> None:
    """The memory is used on another stream in the other file, and that is told with its line there."""
    root, cache = tmp_path / "tree", tmp_path / "cache"
    upload = (
        "import torch\n\ndef counted(count):\n    total = count\n    return total\n\n"
        "def upload(side, x: torch.Tensor):\n    with torch.cuda.stream(side):\n        return x * 2\n"
    )
    user = (
        "import torch\nfrom helper import upload\n\ndef use(x: torch.Tensor):\n"
        "    y = upload(torch.cuda.Stream(), x)\n    return y.sum()\n"
    )
    written(root, {"helper.py": upload, "user.py": user})
    before = report(root, cache)
    assert any(related.span.path == "helper.py" for finding in before.findings for related in finding.related)
    analyzed.clear()
    (root / "helper.py").write_text(upload.replace("total = count\n", "total = count\n    # all\n"))
    after = report(root, cache)
    assert "user.py" in analyzed
    assert after == report(root, None)
    assert after != before


def test_a_function_under_another_statement_is_part_of_it(tmp_path: Path, analyzed: Done) -> None:
    """Whether the module's own statements name ``fetch`` is asked without a look at a function."""
    root, cache = tmp_path / "tree", tmp_path / "cache"
    helper = (
        "import torch\nSIDE = torch.cuda.Stream()\n\ntry:\n    def total(a):\n        some = a\n"
        "        return a\nexcept ImportError:\n    pass\n\ndef handle(m, t):\n    return m.fetch(t)\n"
    )
    main = (
        "import torch\n\ndef fetch(tokens: torch.Tensor):\n"
        '    return tokens.to("cpu", non_blocking=True).numpy()\n'
    )
    written(root, {"helper.py": helper, "main.py": main})
    before = report(root, cache)
    analyzed.clear()
    (root / "helper.py").write_text(helper.replace("some = a", "fetch = a"))
    after = report(root, cache)
    assert "main.py" in analyzed
    assert after == report(root, None)
    assert after != before
