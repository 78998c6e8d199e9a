"""What the SSH server of one machine is started with."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Settings(msgspec.Struct, frozen=True):
    """Paths are of Linux; ``shell`` is ``cmd`` or ``powershell``; ``fault`` and ``scan`` are files that need not exist."""

    address: str
    port: int
    prefix: Path
    user: str
    authorized_keys: str
    host_key: Path
    shell: str
    journal: Path
    fault: Path
    scan: Path


def load(file: Path) -> Settings:
    """Read the settings from a JSON file."""
    return msgspec.json.decode(file.read_bytes(), type=Settings, dec_hook=lambda kind, value: kind(value))
