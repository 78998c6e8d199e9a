"""Before the operator: what several tests use."""

import asyncio
import os
from pathlib import Path
from typing import Any

import yaml
from tests.support.management import manifests
from tests.support.management.management import Management
from tests.support.process import run


async def transom(management: Management, directory: Path, *arguments: str) -> tuple[int, str, str]:
    environment = {"PATH": os.defpath, "HOME": str(directory), "KUBECONFIG": str(management.control_plane.kubeconfig)}
    done = await asyncio.to_thread(run, *arguments, "--namespace", management.namespace, environment=environment)
    assert "hunter2" not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


def write(directory: Path, management: Management, *more: dict[str, Any], **spec: Any) -> Path:
    given = [manifests.base(**spec), manifests.credentials(namespace=management.namespace), *more]
    given.append(manifests.cluster("mycluster", management.org, "v1beta2"))
    (directory / "manifests.yaml").write_text(yaml.safe_dump_all(given))
    return directory
