"""A script that starts something long says so first: a channel that is silent for a minute is taken for a dead host."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

SCRIPTS = Path(str(files("transom.hosts"))) / "scripts"
WITHOUT_CONNECTION = {"job.cmd", "installing.cmd", "removing.cmd", "reversing.cmd", "reversible.cmd", "install.cmd"}
"""What the job runs: the script that follows it speaks every second."""
TEMPLATES = sorted(path for path in SCRIPTS.rglob("*.cmd") if path.name not in WITHOUT_CONNECTION)
LONG = re.compile(
    r'^"%(?:POWERSHELL|CURL)%" |^"%SystemRoot%\\System32\\(?:certutil|dism)\.exe" |^@(?:WHOSE|OWNER|BURIED)@$|^call "%HERE%\\'
)
FRAGMENTS = {"whose.cmd", "owner.cmd"}
"""One line each, which stands in other templates as `@WHOSE@`, `@OWNER@` and `@BURIED@`."""
PROGRESS = re.compile(r"^echo [a-z]+ 1>&2$", re.MULTILINE)
GATHER_LABELS = ("export", "query", "walk", "value", "bootid", "everywhere", "service")


def find_silent_lines(text: str) -> list[str]:
    """Return the lines that start something long where nothing was said since the last one, or since a label."""
    silent, has_spoken = [], False
    for line in text.splitlines():
        if PROGRESS.match(line):
            has_spoken = True
        elif line.startswith(":"):
            has_spoken = False
        elif not line.startswith("rem") and LONG.search(line):
            if not has_spoken:
                silent.append(line[:60])
            has_spoken = False
    return silent


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_progress_stands_before_each_long_program(path: Path) -> None:
    if path.name not in FRAGMENTS:
        assert find_silent_lines(path.read_text("ascii")) == []


@pytest.mark.parametrize("label", GATHER_LABELS)
def test_each_question_of_a_gather_is_progress(label: str) -> None:
    text = (SCRIPTS / "gather.cmd").read_text("ascii")
    assert PROGRESS.match(text.partition(f"\n:{label}\n")[2])


@pytest.mark.parametrize(
    "text",
    [
        'echo a 1>&2\n:label\n"%POWERSHELL%" -Command x',
        'echo a 1>&2\n"%POWERSHELL%" -Command x\n"%POWERSHELL%" -Command y',
        '"%SystemRoot%\\System32\\certutil.exe" -hashfile x',
        "echo a\n@OWNER@",
    ],
)
def test_what_is_silent_is_found(text: str) -> None:
    assert len(find_silent_lines(text)) == 1
