"""SARIF leads to the documentation of a rule where it is known."""

from __future__ import annotations

import json
from dataclasses import dataclass
from email.message import Message
from typing import Any

import pytest

from streamlint.output import Format, render
from streamlint.output.sarif import documentation
from streamlint.output.style import Style
from tests.test_output import outcome


def sarif() -> dict[str, Any]:
    run: dict[str, Any] = json.loads(render(Format.SARIF, outcome(), Style()))["runs"][0]
    return run


@dataclass(frozen=True)
class Installed:
    """What ``importlib.metadata`` knows of a package."""

    metadata: Message
    origin: str | None = None

    def read_text(self, _: str) -> str | None:
        return self.origin


def test_sarif_rules_lead_to_their_pages_where_the_package_says_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = Message()
    documentation.cache_clear()
    said["Project-URL"] = "Source, https://example.org/code"
    said["Project-URL"] = "Documentation, https://example.org/docs/"
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed(said))
    driver = sarif()["tool"]["driver"]
    assert driver["informationUri"] == "https://example.org/docs"
    assert driver["rules"][0]["helpUri"] == "https://example.org/docs/rules/SL101/"
    documentation.cache_clear()


@pytest.mark.parametrize(
    ("origin", "home"),
    [
        (
            {"url": "https://me:key@example.org/a/b.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            "https://example.org/a/b",
        ),
        ({"url": "ssh://git@example.org/a/b.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}, None),
        ({"url": "file:///home/me/streamlint", "dir_info": {}}, None),
        ([], None),
    ],
)
def test_sarif_rules_lead_to_the_repository_that_was_installed(
    monkeypatch: pytest.MonkeyPatch, origin: object, home: str | None
) -> None:
    documentation.cache_clear()
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed(Message(), json.dumps(origin)))
    driver = sarif()["tool"]["driver"]
    assert driver.get("informationUri") == home
    page = f"{home}/blob/c0ffee/docs/rules/SL101.md" if home else None
    assert driver["rules"][0].get("helpUri") == page
    documentation.cache_clear()


@pytest.mark.parametrize(("repository", "home"), [("me/lint", "https://github.com/me/lint"), ("", None)])
def test_sarif_rules_lead_to_the_repository_of_the_action(
    monkeypatch: pytest.MonkeyPatch, repository: str, home: str | None
) -> None:
    """It installs the folder that it lies in; with `uses: ./` it has no repository."""
    documentation.cache_clear()
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed(Message()))
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("STREAMLINT_ACTION_REPOSITORY", repository)
    monkeypatch.setenv("STREAMLINT_ACTION_REF", "v1/a b")
    driver = sarif()["tool"]["driver"]
    assert driver.get("informationUri") == home
    page = f"{home}/blob/v1/a%20b/docs/rules/SL101.md" if home else None
    assert driver["rules"][0].get("helpUri") == page
    documentation.cache_clear()
