"""Files that a command writes: they may hold secrets."""

import os
from pathlib import Path


def write_private(path: Path, data: bytes) -> None:
    """Readable by the owner alone, from the first byte on; a file that was there is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    part.replace(path)
