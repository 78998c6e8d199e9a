"""What README and the pages print is run as it is printed: from an empty directory, with this program alone.

A block that is not run says so, and why, in a comment before it: `<!-- not run: why -->`. All of them are listed here.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.bundles import certificate, private_key
from tests.support.repository import DOCS, ROOT

PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
_COMMAND = re.compile(r"\s*(transom|kubectl|uv|uvx|scripts/\w+|sops)\s")
_MARK = re.compile(r"\s*<!-- (not run|run by): (.+?) -->")


class Block(NamedTuple):
    """Lines of a shell; `mark` is what stands before them: why they are not run, or which test runs them."""

    page: str
    lines: tuple[str, ...]
    mark: tuple[str, str] | None


def blocks(page: Path) -> Iterator[Block]:
    lines = page.read_text("utf-8").splitlines()
    at, mark = 0, None
    while at < len(lines):
        line = lines[at]
        if found := _MARK.fullmatch(line):
            mark = (found[1], found[2])
        elif line.strip().startswith("```"):
            end = next(number for number in range(at + 1, len(lines)) if lines[number].strip() == "```")
            body = [one.strip() for one in lines[at + 1 : end]]
            if line.strip() in ("```", "```sh", "```bash") and any(map(_COMMAND.match, body)):
                yield Block(page.name, tuple(body), mark)
            at, mark = end, None
        elif line.startswith("    ") and not lines[at - 1].strip() and _COMMAND.match(line):
            end = next((number for number in range(at, len(lines)) if not lines[number].startswith("    ")), len(lines))
            yield Block(page.name, tuple(one.strip() for one in lines[at:end]), mark)
            at, mark = end - 1, None
        elif line.strip():
            mark = None
        at += 1


def tables(page: Path) -> Iterator[str]:
    """The commands of a table of tasks, each with what its cell says beside it."""
    for line in page.read_text("utf-8").partition("| task | command |")[2].partition("\n\n")[0].splitlines():
        cell = line.rpartition(" | ")[2]
        for command in re.findall(r"`(transom [^`]+)`", cell):
            yield f"{command}  # {cell}"


BLOCKS = tuple(block for page in PAGES for block in blocks(page))
RUN = tuple(block for block in BLOCKS if block.mark is None)
NOT_RUN = {
    "README.md": ["it installs programs for the user"],
    "operator.md": [
        "it needs an operator that has done its work",
        "it sets a rollout going that was stopped",
    ],
    "payload.md": ["it needs the files of the payload, which are somebody else's"],
    "pods.md": ["it needs pods in a cluster"],
    "questions.md": ["it needs somebody's own secrets"],
    "windows-nodes.md": ["it needs a cluster of OpenShift", "it needs a cluster with the Windows Machine Config Operator"],
    "workload-clusters.md": [
        "it makes a cluster of this host",
        "it edits kube-proxy of a workload cluster",
        "it needs a Secret of a peer",
    ],
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


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty directory but for what a page says that its reader has."""
    (tmp_path / "id_ed25519").write_text(private_key())
    (tmp_path / "corp-ca.pem").write_text(certificate("Corp CA"))
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


def shell(home: Path, lines: tuple[str, ...] | list[str]) -> list[tuple[str, int, str]]:
    """Each line with its exit code and all that it said."""
    bin = Path(sys.executable).parent
    environment = {"PATH": f"{bin}{os.pathsep}{os.defpath}", "HOME": str(home), "COLUMNS": "120", "LANG": "C.UTF-8"}
    ran = []
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line], cwd=home, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        ran.append((line, done.returncode, done.stdout + done.stderr))
    return ran


def failures(ran: list[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    """Lines that ended otherwise than is said beside them."""
    return [one for one in ran if one[1] != (1 if "exit code 1" in one[0] else 0) or "Traceback" in one[2]]


@pytest.mark.server
def test_the_first_ten_minutes_and_the_daily_tasks(home: Path) -> None:
    ours = [block for block in RUN if block.page == "README.md"]
    first, *others = ours
    *story, stop = first.lines
    try:
        ran = shell(home, story)
        assert failures(ran) == []
        said = {line.split("#")[0].strip(): text for line, _, text in ran}
        assert "nothing is wrong" in said["transom validate -f lab"]
        assert "HTTPS_PROXY=http://proxy.corp.example:3128" in said["transom facts win-1 -f lab"]
        tasks = list(tables(ROOT / "README.md"))
        assert len(tasks) >= 15
        # what the story has done is not to be done again: the host differs no more
        assert failures([one for one in shell(home, tasks) if not one[0].startswith("transom diff")]) == []
    finally:
        ended = shell(home, [stop])
    assert failures(ended) == []
    for block in others:
        assert failures(shell(home, block.lines)) == []


@pytest.mark.parametrize(
    "block", [one for one in RUN if one.page != "README.md"], ids=lambda one: f"{one.page}-{one.lines[0][:30]}"
)
def test_a_block_of_a_page(block: Block, home: Path) -> None:
    assert failures(shell(home, block.lines)) == []
