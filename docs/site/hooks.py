"""Makes pages of a site of those that are read in the repository; mkdocs.yml names this file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = {
    "index.md": "README.md",
    **{name: name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")},
}
"""Pages that live in the root of the repository, by their names in the site."""
LINK = re.compile(r"(!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s:]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the page of each rule below that of all rules."""
    rules = sorted(path.name for path in (Path(config.docs_dir) / "rules").glob("SL*.md"))
    for section in config.nav or []:
        for item in next(iter(section.values())):
            if item.get("Rules"):
                item["Rules"] = [item["Rules"], *(f"rules/{name}" for name in rules)]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, source in PAGES.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Let links lead to where their targets are in the site; what is not in it is named without a link."""
    outside = page.file.src_uri in PAGES
    here = ROOT / PAGES[page.file.src_uri] if outside else Path(config.docs_dir) / page.file.src_uri
    names = {ROOT / source: name for name, source in PAGES.items()}

    def relinked(match: re.Match[str]) -> str:
        target, hash_, anchor = match["target"].partition("#")
        path = (here.parent / target).resolve()
        if not target or (not outside and path not in names and path.is_relative_to(config.docs_dir)):
            return match[0]
        name = names.get(path)
        if name is None and path.is_relative_to(config.docs_dir):
            name = path.relative_to(config.docs_dir).as_posix()
        return f"{match[1]}[{match['text']}]({name}{hash_}{anchor})" if name else match["text"]

    return LINK.sub(relinked, markdown)
