"""What a release says of its parts is what the lock says."""

import re
import subprocess
import sys
import tomllib

from tests.support.repository import DOCS, ROOT


def printed(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_requirements_are_those_of_the_lock_with_hashes() -> None:
    """`scripts/reference` writes both files."""
    text = (ROOT / "requirements.txt").read_text("utf-8")
    locked = {item["name"]: item for item in tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]}
    named = re.findall(r"^([a-z0-9-]+)==(\S+)(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(named) > 20
    for name, version, rest in named:
        files = [*locked[name].get("wheels", ()), *([locked[name]["sdist"]] if "sdist" in locked[name] else [])]
        assert version == locked[name]["version"]
        assert sorted(re.findall(r"--hash=(\S+)", rest)) == sorted(file["hash"] for file in files), name
    (project,) = (item for item in locked.values() if item["source"] == {"editable": "."})
    assert {dependency["name"] for dependency in project["dependencies"]} <= {name for name, _, _ in named}


def test_each_licence_is_listed() -> None:
    page = (DOCS / "licences.md").read_text("utf-8")
    assert page == printed(sys.executable, "scripts/licences")
    assert "| asyncssh | EPL-2.0 OR GPL-2.0-or-later |" in page
    assert re.findall(r"^\| \S+ \|  ?\|$", page, re.MULTILINE) == []
