"""A hook of mkdocs.yml: pages of the repository that lie outside `docs`, as pages of the site."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PAGES = {"CONTRIBUTING.md": "contributing.md", "SECURITY.md": "report-a-vulnerability.md", "CHANGELOG.md": "changelog.md"}
"""Their paths in the repository, and on the site."""
RANKS = {
    "install.md": 2,
    "uninstall.md": 2,
    "troubleshooting.md": 2,
    "questions.md": 1.5,
    "security.md": 2,
    "changelog.md": 0.1,
    "peer-defects.md": 0.3,
    "verified.md": 0.3,
    "licences.md": 0.3,
    "contributing.md": 0.5,
    "architecture.md": 0.5,
    "how-no-proxy-is-read.md": 0.5,
    "cli.md": 0.5,
    "reasons.md": 0.5,
    "values.md": 0.5,
}
"""What the score of a page in a search is multiplied with: less than 1 where it has every word, and is seldom the answer."""
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"\[([^]\n]+)\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    root = Path(config.config_file_path).parent
    for item, here in PAGES.items():
        files.append(File.generated(config, here, content=(root / item).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Say how a page ranks; lead links to where pages are on the site, and make words of those to what it has not.

    A bar in the code of a table needs a backslash on GitHub, which the site's Markdown would show.
    """
    if rank := RANKS.get(page.file.src_uri):
        page.meta["search"] = {"boost": rank}
    root = Path(config.config_file_path).parent
    outside = {here: item for item, here in PAGES.items()}.get(page.file.src_uri)
    base = posixpath.dirname(outside if outside else f"docs/{page.file.src_uri}")

    def on_site(link: re.Match[str]) -> str:
        text, path, anchor = link.groups()
        repository_path = posixpath.normpath(posixpath.join(base, path))
        target = repository_path.removeprefix("docs/") if repository_path.startswith("docs/") else PAGES.get(repository_path)
        if target is None:
            return text if (root / repository_path).exists() else link[0]
        return f"[{text}]({posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or '.')}{anchor or ''})"

    lines = _LINK.sub(on_site, markdown).split("\n")
    return "\n".join(_CODE.sub(_unescape_bars, line) if line.startswith("|") else line for line in lines)


def _unescape_bars(code: re.Match[str]) -> str:
    return code[0].replace("\\|", "|")
