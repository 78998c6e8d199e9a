"""What workflows, actions and scripts install is named by version and hash, and no script is run as it comes."""

import re
from pathlib import Path
from typing import Final

import pytest
from tests.support.repository import ROOT

_SCRIPTS: Final = [file for file in (ROOT / "scripts").iterdir() if file.is_file() and file.suffix != ".txt"]
_FILES: Final = sorted(
    [
        ROOT / "action.yml",
        ROOT / "image" / "Containerfile",
        *(ROOT / ".github").rglob("*.y*ml"),
        *_SCRIPTS,
        *(ROOT / "image").glob("*.py"),
        *(ROOT / "website").rglob("*.sh"),
    ]
)
_USES: Final = re.compile(r"\buses:\s*(\S+)(.*)")
_PINNED: Final = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}\Z")
_PIPED: Final = re.compile(
    r"\b(curl|wget)\b[^|;&]*\|\s*(sudo\s+)?(env\s+)?((ba|da|z)?sh|python3?)\b|(ba|da|z)?sh\s+(-c\s+)?\"?[<$]\((curl|wget)\b"
    r"|\b(irm|iwr|Invoke-(RestMethod|WebRequest))\b.*\|\s*(iex|Invoke-Expression)\b"
    r"|\b(iex|Invoke-Expression)\b.*\b(irm|iwr|DownloadString|Invoke-(RestMethod|WebRequest))\b",
    re.IGNORECASE,
)
_PIP: Final = re.compile(r"(\bpip3?(\.\d+)?[\"']?,?|-m[ \"',]+pip[\"']?,?)\s+(-\S+\s+)*[\"']?install\b")
_LOCAL: Final = re.compile(r"--no-deps\b.*--editable\b")
_TOOLS: Final = re.compile(
    r"^\s*(-\s+|run:\s*|&&\s*)?(sudo\s+)?(pipx\s+(install|run)|uv\s+tool\s+(install|run)|uvx\s|npm\s+(install|i)\b|npx\s|gem\s+install"
    r"|cargo\s+install|(choco|scoop|brew|winget)\s+install|easy_install\s|Install-(Module|Package|Script)\s|uv\s+run\s.*--with\s|go\s+install\s+\S+@(latest|master|main))"
)


def iter_commands(text: str) -> list[str]:
    """Return the lines of a file with those that end in a backslash joined, without comments."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [re.sub(r"(^|\s)#\s.*", "", line) if "uses:" not in line else line for line in joined.splitlines()]


def find_unpinned(text: str) -> list[str]:
    """Return the lines that install what nobody has named by version and hash."""
    found = []
    for line in iter_commands(text):
        uses, pip = _USES.search(line), _PIP.search(line)
        if uses and not uses[1].startswith("./") and not (_PINNED.match(uses[1]) and re.match(r"\s+# v\d", uses[2])):
            found.append(line)
        is_message = re.match(r"\s*(say|tell|echo|printf|\[.*\]\s*\|\|\s*say)\b", line)
        if pip and not is_message and "--require-hashes" not in line and not _LOCAL.search(line) and "sudo apt" not in line:
            found.append(line)
        if _PIPED.search(line) or _TOOLS.search(line):
            found.append(line)
    return found


@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_a_file_installs_nothing_that_is_not_pinned(file: Path) -> None:
    assert find_unpinned(file.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "- uses: actions/checkout@v4",
        "      - uses: actions/checkout@11d5960a326750d5838078e36cf38b85af677262",
        "- uses: actions/checkout@11d5960 # v4",
        "  uses: docker://debian",
        "curl -fsSL https://astral.sh/uv/install.sh | sh",
        "wget -qO- https://example.com/x | sudo bash",
        'bash -c "$(curl -fsSL https://example.com/x)"',
        "python3 -m pip install uv",
        "pip install --upgrade pip",
        '"$venv/bin/pip" install --quiet "$GITHUB_ACTION_PATH"',
        "python3 -m pip install \\\n    uv==0.13.9",
        "pipx install transom",
        "uv tool install ruff",
        "npm install -g markdownlint",
        "go install example.com/x@latest",
        "- uses: 'actions/checkout@main'",
        "- {uses: actions/checkout@v4}",
        "run: pip -q install transom",
        "pip3.12 install --user uv==0.13.9",
        "pip install git+https://example.com/x@main",
        "python3 -m pip install -r requirements.txt",
        "uv run --with ruff==0.14 ruff check",
        "curl -fsSL https://example.com/x.py | python3 -",
        "run: irm https://astral.sh/uv/install.ps1 | iex",
        "Invoke-Expression (Invoke-WebRequest https://example.com/x.ps1)",
        "choco install -y golang",
    ],
)
def test_what_is_not_pinned_is_found(line: str) -> None:
    assert find_unpinned(line)


def test_uv_is_pinned_once_for_all_who_install_it() -> None:
    text = (ROOT / "scripts" / "uv-requirements.txt").read_text("utf-8")
    assert re.search(r"^uv==[0-9.]+ \\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    for name in ("image/Containerfile", ".github/workflows/windows.yaml"):
        assert "uv-requirements.txt" in (ROOT / name).read_text("utf-8")
