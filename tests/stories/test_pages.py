"""What README and the pages print is run as it is printed: from an empty directory, with this program alone.

A block that is not run says so, and why, in a comment before it: `<!-- not run: why -->`. All of them are listed here.
"""

import re
from pathlib import Path

import pytest
import yaml
from tests.support.bundles import certificate, private_key
from tests.support.pages import PAGES, Block, blocks, run_by, shell, tables
from tests.support.repository import DOCS, ROOT
from tests.support.workers.shipped import shipped

BLOCKS = tuple(block for page in PAGES for block in blocks(page))
RUN = tuple(block for block in BLOCKS if block.mark is None)
NOT_RUN = {
    "README.md": ["it fetches packages from PyPI"],
    "credentials.md": ["it needs sops, and a key of one's own"],
    "start.md": ["it fetches packages from PyPI"] * 2,
    "image.md": ["it fetches Debian's packages and PyPI's", "it fetches the programs of their publishers, too"],
    "install.md": ["it runs a Pod", "not released yet"],
    "release.md": ["the version is yours"],
    "olm.md": ["it needs a container engine, opm, and OLM"],
    "workload-clusters.md": ["it makes a cluster of this host"],
    "verify-cluster.md": ["it needs a Windows node"],
    "windows-pods.md": ["it needs a Windows node"],
}


def test_every_block_is_run_or_says_why_not() -> None:
    listed: dict[str, list[str]] = {}
    for block in BLOCKS:
        if block.mark is not None and block.mark[0] == "not run":
            listed.setdefault(block.page, []).append(block.mark[1])
        if block.mark is not None and block.mark[0] == "run by":
            path, _, name = block.mark[1].partition("::")
            assert f"def {name}(" in (ROOT / path).read_text("utf-8")
    assert listed == NOT_RUN
    assert len(RUN) >= 4


def anchors(page: Path) -> set[str]:
    """Of the titles, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", title)).lower().replace(" ", "-") for title in titles
    }


def test_every_link_leads_somewhere() -> None:
    dead = []
    for page in (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "benchmarks" / "README.md"):
        for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text("utf-8")):
            path, _, anchor = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            if not there.exists() or (anchor and anchor not in anchors(there)):
                dead.append(f"{page.name}: {target}")
    assert dead == []


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty directory but for what a page says that its reader has."""
    (tmp_path / "id_ed25519").write_text(private_key())
    (tmp_path / "corp-ca.pem").write_text(certificate("Corp CA"))
    for place in ("wmco/payload", "files"):
        for file in yaml.safe_load(shipped("default"))["files"]:
            if "source" in file:
                path = tmp_path / place / file["source"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"MZ " + file["source"].encode())
    for directory in ("settings", "namespaces"):
        (tmp_path / directory).mkdir()
    (tmp_path / "settings" / "a.yaml").write_text(
        "{apiVersion: transom.dev/v1alpha1, kind: EgressProxy, metadata: {name: cluster}, spec: {httpProxy: 'http://p.x:1'}}"
    )
    (tmp_path / "namespaces" / "a.yaml").write_text("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
    (tmp_path / "pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: web, image: a}]}}"
    )
    return tmp_path


def failures(home: Path, *lines: str) -> list[tuple[str, int, str]]:
    """Lines that ended otherwise than is said beside them."""
    ran = [(line, *shell(home, line)) for line in lines]
    return [item for item in ran if item[1] != (1 if "exit code 1" in item[0] else 0) or "Traceback" in item[2]]


@pytest.mark.server
def test_the_first_ten_minutes_and_the_daily_tasks(home: Path) -> None:
    first, *others = (block for block in RUN if block.page == "README.md" and block.lines[0].startswith("transom"))
    *story, stop = first.lines
    (printed,) = run_by("tests/stories/test_pages.py::test_the_first_ten_minutes_and_the_daily_tasks")
    assert printed.lines == first.lines, "docs/start.md tells another story than README"
    try:
        assert failures(home, *story) == []
        assert "nothing is wrong" in shell(home, "transom validate -f lab")[1]
        assert "nothing looks wrong" in shell(home, "transom doctor -f lab")[1]
        assert "HTTPS_PROXY=http://proxy.corp.example:3128" in shell(home, "transom facts win-1 -f lab")[1]
        daily, _ = tables(DOCS / "how-to" / "daily-tasks.md")
        (shortest,) = tables(ROOT / "README.md")
        assert len(daily) >= 15
        daily += [task for task in shortest if task not in daily]
        # what the story has done is not to be done again: the host differs no more
        assert failures(home, *(task for task in daily if not task.startswith("transom diff"))) == []
    finally:
        ended = failures(home, stop)
    assert ended == []
    for block in others:
        assert failures(home, *block.lines) == []


@pytest.mark.parametrize(
    "block",
    [item for item in RUN if item.page != "README.md"],
    ids=lambda item: f"{item.page}-{item.lines[0][:30]}",
)
def test_a_block_of_a_page(block: Block, home: Path) -> None:
    assert failures(home, *block.lines) == []
