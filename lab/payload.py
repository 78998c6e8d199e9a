"""The lab's payload: kubelet.exe, containerd.exe and kube-proxy.exe as a payload's directory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from lab import build, cache

SOURCES = Path(__file__).parent / "windows"


def build_directory() -> Path:
    """Return the directory of the payload; build it once."""
    programs = [build.build_program(program) for program in (*build.CONTAINERD_PROGRAMS[:1], *build.list_node_programs())]

    def make(target: Path) -> None:
        for program in programs:
            os.link(program, target / program.name)
        shutil.copy2(SOURCES / "payload.yaml", target)
        (target / "source-vip.ps1").write_text("(Get-HnsEndpoint | Where-Object Name -eq 'source-vip').IPAddress\n")

    return cache.get_entry("payload", cache.digest([*map(str, programs), SOURCES / "payload.yaml", Path(__file__)]), make)
