"""Which programs a fast test must not start: those that a machine with Python and uv alone does not have.

`scripts/test fast` promises to need nothing else. On a machine that has everything, a test that starts one of these would pass,
and fail where a contributor runs it first.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.repository import ROOT

ESSENTIAL = {"ca-certificates", "git", "openssl", "util-linux"}
"""Packages of scripts/install that each Debian has, or that a clone needs."""
MORE = ("go", "gofmt", "gcc", "java", "scp", "sftp", "squid", "ssh", "ssh-add", "ssh-keygen", "wine")
"""Programs of these packages that scripts/install does not look for, and Go's."""
_STUB = '#!/bin/sh\necho "a fast test started ${0##*/}: mark it `lab`" >&2\nexit 127\n'


def lab_programs() -> Iterator[str]:
    """What scripts/install installs for tests with real parts."""
    text = (ROOT / "scripts" / "install").read_text("utf-8")
    for package, program in re.findall(r"^\s+want (\S+) (\S+)", text, re.MULTILINE):
        if package not in ESSENTIAL:
            yield Path(program).name
    yield from MORE


@pytest.fixture(scope="session")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which each of them is a program that fails."""
    directory = tmp_path_factory.mktemp("stubs")
    for name in set(lab_programs()):
        (directory / name).write_text(_STUB)
        (directory / name).chmod(0o755)
    return directory


@pytest.fixture(autouse=True)
def without_lab_programs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Put the stubs first in PATH for a test that is neither marked `lab` nor `server`."""
    if request.node.get_closest_marker("lab") or request.node.get_closest_marker("server"):
        yield
        return
    directory = request.getfixturevalue("stubs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{directory}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
        yield
