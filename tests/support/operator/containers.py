"""`transom run` out of its image, as the pod of its Deployment."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from lab.operator_image import Images, Pod
from tests.support.operator.installation import Installation
from tests.support.operator.programs import Program
from tests.support.process import run


def pod_spec(*options: str) -> dict[str, Any]:
    """The operator's pods, as `transom manifests` has them with these options."""
    made = run("manifests", "--part", "operator", *options)
    assert made.returncode == 0, made.stderr
    deployment = next(item for item in yaml.safe_load_all(made.stdout) if item and item["kind"] == "Deployment")
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return spec


class Contained(Program):
    """One replica in a container: the image's user, a root that it cannot write, the token of its ServiceAccount."""

    def __init__(self, installed: Installation, images: Images, directory: Path, options: Sequence[str]) -> None:
        super().__init__(installed, "contained")
        plane, spec = installed.control_plane, pod_spec(*options)
        account = {
            "token": plane.create_service_account_token(installed.namespace, spec["serviceAccountName"]),
            "ca.crt": plane.authority_file.read_text(),
            "namespace": installed.namespace,
        }
        pod = Pod(spec, images, directory, account)
        pod.initialize()
        where = {"KUBERNETES_SERVICE_HOST": plane.address, "KUBERNETES_SERVICE_PORT": str(plane.port)}
        more = (f"--bind-address=127.0.0.1:{self.port}", "--log-level=debug")
        self._command = pod.build_command(spec["containers"][0], where, *more)
