"""The build hook of hatchling: it writes the commit into the sdist and the wheel, as `transom/REVISION`."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RevisionHook(BuildHookInterface):
    """Adds the file. An editable installation has none: its files change after the build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file to what is built; without Git, and in an sdist, it is the one that exists."""
        source = Path(self.root, "src", "transom", "REVISION")
        if version == "editable" or source.is_file():
            return
        revision = read_commit(self.root)
        if not revision:
            return
        file = Path(tempfile.mkdtemp(prefix="transom-revision-"), "REVISION")
        file.write_text(f"{revision}\n", "ascii")
        target = "src/transom/REVISION" if self.target_name == "sdist" else "transom/REVISION"
        build_data["force_include"][str(file)] = target

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete the temporary file."""
        for source, target in build_data["force_include"].items():
            if target.endswith("transom/REVISION"):
                Path(source).unlink()
                Path(source).parent.rmdir()


def read_commit(directory: str) -> str:
    """Return the commit of a clone, with `-dirty` if tracked files differ from it; empty without a clone or Git."""
    if not Path(directory, ".git").exists():
        return ""
    commands = (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
    try:
        commit, changes = (
            subprocess.run(  # noqa: S603  # the commands above
                ["git", "-C", directory, *one],  # noqa: S607  # the Git of whoever builds
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            for one in commands
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{commit}-dirty" if changes else commit
