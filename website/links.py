"""`python -m website.links`: what the pages link to outside the repository, and whether it is there (`scripts/audit --links`).

Exits 0 where each page is there, 1 where one is gone (404, 410), 3 where one could not be asked for.
"""

import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_PAGES: Final = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benchmarks/*.md", "docs/**/*.md")
_CODE: Final = re.compile(r"^ *(```|~~~).*?^ *\1|^ {4}.*?$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"https?://(?:[\w-]+\.)+[\w-]+(?::\d+)?[^\s)|<>\"'`]*")
_EXAMPLE: Final = re.compile(r"https?://(?:[^/]*\.)?example(?:\.com)?(?:[:/]|$)")
"""Names that lead nowhere (RFC 2606)."""
_GONE: Final = (404, 410)
_SECONDS: Final = 30
_AGENT: Final = "Mozilla/5.0 (scripts/audit --links)"
"""Some servers answer 403 to a program that does not say what it is."""


def find_external_links(root: Path = ROOT) -> dict[str, list[str]]:
    """Return the external links outside code, each with the pages that contain it."""
    links: dict[str, list[str]] = {}
    for page in sorted({page for pattern in _PAGES for page in root.glob(pattern)}):
        for link in _LINK.findall(_CODE.sub("", page.read_text("utf-8"))):
            name, known = str(page.relative_to(root)), links.setdefault(link.rstrip(".,;:"), [])
            if name not in known:
                known.append(name)
    return {link: pages for link, pages in sorted(links.items()) if not _EXAMPLE.match(link)}


def check_links(links: Iterable[str]) -> dict[str, int | str]:
    """Request each page and return its HTTP status, or the error. Fragments (`#`) are not checked."""
    pages = sorted({link.partition("#")[0] for link in links})
    with ThreadPoolExecutor(8) as pool:
        return dict(zip(pages, pool.map(_answer, pages), strict=True))


def _answer(url: str) -> int | str:
    request = urllib.request.Request(url, headers={"User-Agent": _AGENT})  # a test keeps them to https
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError as error:
        return str(getattr(error, "reason", error))


def report(links: Mapping[str, list[str]], answers: Mapping[str, int | str]) -> int:
    """Print what is not there, with the pages that link to it; the exit code."""
    wrong = {link: answer for link in links if (answer := answers[link.partition("#")[0]]) != 200}
    for link, item in wrong.items():
        print(f"{item}: {link} ({', '.join(links[link])})")
    print(f"{len(links)} links, {len(links) - len(wrong)} are there", file=sys.stderr)
    return 1 if set(wrong.values()) & set(_GONE) else 3 if wrong else 0


if __name__ == "__main__":
    links = find_external_links()
    sys.exit(report(links, check_links(links)))
