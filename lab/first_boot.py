"""A Linux machine's first boot without a machine: the files and the script of its bootstrap data, in a root of their own.

Debian's cloud-init writes the files of a cloud-config and makes the script; the files of an Ignition configuration are plain
data. The script runs as it was rendered, in namespaces of its own: no file and no network of this machine is within its reach.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lab import kubernetes
from lab.root import Root

SCRIPT = "/first-boot.sh"
CLOUD_INIT = "/usr/bin/cloud-init"
# `kubeadm init` as far as it needs neither a container runtime nor a network: the static pods
_KUBEADM = """#!/bin/sh
[ "$1" = init ] || { echo "kubeadm $*" >>/joined; exit 0; }
shift
exec /opt/kubeadm init phase control-plane all "$@"
"""
_WRITE = """
import sys
from cloudinit import util
from cloudinit.config.cc_write_files import write_files
config = util.load_yaml(util.load_file("/user-data"))
write_files("first boot", config.get("write_files") or [], "root")
util.write_file(sys.argv[1], util.shellify(config.get("runcmd") or []), 0o700)
"""


class FirstBootError(Exception):
    """Bootstrap data that cannot be booted from; the message has what the program said."""


class FirstBoot:
    """A root below ``directory``, to boot once."""

    def __init__(self, directory: Path) -> None:
        self._root = Root(directory)
        shutil.copy(kubernetes.kubeadm(), directory / "opt/kubeadm")
        self._root.put("/opt/bin/kubeadm", _KUBEADM.encode(), 0o755)

    def cloud_config(self, user_data: bytes) -> str:
        """Boot from CABPK's cloud-config; what the script printed. Raises FirstBootError."""
        text = render(user_data, self.file("/instance-data.json"))
        self._root.put("/user-data", text.encode())
        self._root.put("/write.py", _WRITE.encode())
        self._root.put("/enter", f"set -e\n/usr/bin/python3 /write.py {SCRIPT}\nexec {SCRIPT}\n".encode())
        return self._enter()

    def ignition(self, user_data: bytes) -> str:
        """Boot from CABPK's Ignition configuration (2.3); what the script printed. Raises FirstBootError."""
        for file in json.loads(user_data)["storage"]["files"]:
            content = urllib.parse.unquote_to_bytes(file["contents"]["source"].removeprefix("data:,"))
            self._root.put(file["path"], content, file.get("mode", 0o644))
        self._root.put("/enter", b"exec /bin/bash /etc/kubeadm.sh\n")
        return self._enter()

    def file(self, path: str) -> Path:
        """A file of the machine, as this one sees it."""
        return self._root.file(path)

    def static_pods(self) -> Mapping[str, Mapping[str, str]]:
        """The environment of each static pod's container, by the pod's name."""
        found = {}
        for path in sorted(self.file("/etc/kubernetes/manifests").glob("*.yaml")):
            pod: dict[str, Any] = yaml.safe_load(path.read_text())
            (container,) = pod["spec"]["containers"]
            found[pod["metadata"]["name"]] = {item["name"]: item["value"] for item in container.get("env", ())}
        return found

    def _enter(self) -> str:
        command = self._root.command(("/bin/sh", "/enter"))
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        said = done.stdout + done.stderr
        if done.returncode != 0:
            raise FirstBootError(f"the script ended with {done.returncode}: {said[-2000:]}")
        return said


def render(user_data: bytes, instance_data: Path) -> str:
    """The cloud-config as the machine reads it, after cloud-init's template engine. Raises FirstBootError."""
    template = instance_data.with_name("template")
    template.write_bytes(user_data)
    instance_data.write_text(json.dumps({"ds": {"meta_data": {"local_hostname": "lab"}}, "v1": {"local_hostname": "lab"}}))
    return _run(CLOUD_INIT, "devel", "render", "-i", str(instance_data), str(template))


def check_schema(user_data: bytes, directory: Path) -> str:
    """What cloud-init says of a cloud-config that is valid. Raises FirstBootError where it is not."""
    rendered = directory / "rendered.yaml"
    text = render(user_data, directory / "instance-data.json")
    rendered.write_text(text if text.startswith("#cloud-config") else f"#cloud-config\n{text}")
    return _run(CLOUD_INIT, "schema", "--config-file", str(rendered))


def _run(*command: str) -> str:
    environment = {"PATH": os.defpath, "HOME": "/nonexistent"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise FirstBootError(f"{' '.join(command)}: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout
