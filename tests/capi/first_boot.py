"""A Windows machine's first boot with the user data of a worker."""

import base64
from typing import Any

from lab.machine import Machine

from lab import cloudbase
from transom.capi.check.worker_inputs import WorkerInputs
from transom.capi.worker import user_data
from transom.capi.worker.worker_objects import build_worker
from transom.proxy.settings import Egress


def boot(machine: Machine, settings: Egress, **inputs: Any) -> None:
    """What cloudbase-init does on the machine: the files, then the commands."""
    worker = build_worker(WorkerInputs(cluster="prod", provider="aws", **inputs), settings)
    secrets = [item for item in worker.objects if item["kind"] == "Secret"]
    held = [(item["metadata"]["name"], key, text) for item in secrets for key, text in item["data"].items()]
    texts = {(name, key): base64.b64decode(text).decode() for name, key, text in held}
    template = next(item for item in worker.objects if item["kind"] == "KubeadmConfigTemplate")
    found = cloudbase.read(user_data.render_user_data(template["spec"]["template"]["spec"], texts))
    for file in found.files:
        path = machine.drive / file.path.replace("C:\\", "").lstrip("\\").replace("\\", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
    (script,) = found.scripts
    (machine.drive / "runcmd.cmd").write_bytes(script.content.replace(b"\n", b"\r\n"))
    machine.run("cmd", "/d", "/c", r"C:\runcmd.cmd")
