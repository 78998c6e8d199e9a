"""Every PowerShell text of Transom that a host or an image runs, by the file that it stands in."""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml
from tests.windows.userdata import KEY, PROXIED, powershell

import transom
from transom.proxy.settings import Egress
from transom.windows.firstboot import build_user_data

PACKAGE = Path(transom.__file__).parent
WORKFLOW = Path(".github/workflows/windows.yaml")
_COMMAND = re.compile(r'-Command "(.*?)"(?: >|$)', re.MULTILINE)


def texts() -> dict[str, str]:
    """The text by where it is: `.ps1` files, what a `.cmd` hands to powershell.exe, and the user data."""
    return dict(_texts())


def _texts() -> Iterator[tuple[str, str]]:
    for file in sorted(PACKAGE.rglob("*.ps1")):
        yield str(file.relative_to(PACKAGE)), file.read_text("utf-8")
    for file in sorted(PACKAGE.rglob("*.cmd")):
        for number, match in enumerate(_COMMAND.finditer(file.read_text("utf-8"))):
            yield f"{file.relative_to(PACKAGE)} {number}", match[1]
    for step in (step for job in yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"].values() for step in job["steps"]):
        if step.get("shell") == "powershell":
            yield f"{WORKFLOW.name} {step['name']}", step["run"]
    for platform in ("AWS", "Azure", "GCP"):
        for egress in (Egress(), PROXIED):
            text = build_user_data(KEY, egress, platform=platform).text
            script = text if platform == "GCP" else powershell(text)
            yield f"user data {platform} {'with a proxy' if egress.configured else ''}".strip(), script
