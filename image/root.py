"""What no package brings: the user, the bundle of the system's CAs, and the program `transom`."""

from __future__ import annotations

from pathlib import Path

USER = 65532
"""`nonroot` of distroless images (GoogleContainerTools/distroless, common/variables.bzl)."""
CONFIG = {
    "User": f"{USER}:{USER}",
    "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/home/nonroot", "LOGNAME=nonroot"],
    "Entrypoint": ["transom"],
    "WorkingDir": "/home/nonroot",
}
_BUNDLE = "etc/ssl/certs/ca-certificates.crt"
_PROGRAM = """#!/usr/bin/python3.11
import sys

from transom.__main__ import main

sys.exit(main())
"""


def complete(root: Path) -> None:
    """Do what the scripts of packages would have done, and make the directories that volumes are mounted on."""
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = root / _BUNDLE
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(certificate.read_text().rstrip("\n") + "\n" for certificate in certificates))
    # OPENSSLDIR of Debian's libssl3 (openssl version -d): what Python's ssl takes where nobody says anything
    (root / "usr/lib/ssl").mkdir(parents=True, exist_ok=True)
    (root / "usr/lib/ssl/cert.pem").symlink_to(f"/{_BUNDLE}")
    (root / "usr/lib/ssl/certs").symlink_to("/etc/ssl/certs")
    (root / "etc/passwd").write_text(
        f"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/home/nonroot:/sbin/nologin\n"
    )
    (root / "etc/group").write_text(f"root:x:0:\nnonroot:x:{USER}:\n")
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    for name in ("home/nonroot", "payload", "tmp", "var/cache/transom", "proc", "sys", "dev", "run"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)


def launch(tree: Path) -> None:
    """Put `transom` where it is found."""
    program = tree / "usr/local/bin/transom"
    program.parent.mkdir(parents=True)
    program.write_text(_PROGRAM)
    program.chmod(0o755)
