"""Packer itself, and a recipe as it reads it."""

import re
import subprocess
from pathlib import Path

from lab import build
from transom.capi.image.image_recipe import Recipe

# its plugins cannot be had: the machine is one that is there
NO_BUILDER = """source "null" "windows" {
  communicator   = "winrm"
  winrm_host     = "127.0.0.1"
  winrm_username = "Administrator"
  winrm_password = "hunter2"
}
"""


def written(made: Recipe, directory: Path) -> Path:
    """The recipe's files in a directory; that directory."""
    for name, content in made.files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    return directory


def packer(*arguments: str, directory: Path, typed: str = "") -> str:
    """What it says to `typed`; it is started in another directory than the template's."""
    environment = {
        "HOME": str(directory),
        "PACKER_PLUGIN_PATH": str(directory / "plugins"),
        "CHECKPOINT_DISABLE": "1",
        # it starts six of itself, and a quarter of what they cost is looking for garbage
        "GOGC": "off",
    }
    command = [build.build_program(build.PACKER), *arguments]
    done = subprocess.run(
        command, input=typed, cwd="/", env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    return done.stdout + done.stderr


def exchanged(template: str) -> str:
    """The template with a builder that Packer has of its own."""
    block = re.search(r'^source "([a-z-]+)" "windows" \{\n.*?^\}\n', template, re.MULTILINE | re.DOTALL)
    assert block is not None
    without = re.sub(r"^packer \{\n.*?^\}\n", "", template, flags=re.MULTILINE | re.DOTALL)
    return without.replace(block[0], NO_BUILDER).replace(f"source.{block[1]}.windows", "source.null.windows")
