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
        shutil.copy(kubernetes.build_kubeadm(), directory / "opt/kubeadm")
        self._root.put("/opt/bin/kubeadm", _KUBEADM.encode(), 0o755)

    def boot_cloud_config(self, user_data: bytes) -> str:
        """Boot from CABPK's cloud-config and return the script's output. Raises FirstBootError."""
        text = render(user_data, self.get_host_path("/instance-data.json"))
        self._root.put("/user-data", text.encode())
        self._root.put("/write.py", _WRITE.encode())
        self._root.put("/enter", f"set -e\n/usr/bin/python3 /write.py {SCRIPT}\nexec {SCRIPT}\n".encode())
        return self._enter()

    def boot_ignition(self, user_data: bytes) -> str:
        """Boot from CABPK's Ignition configuration (2.3) and return the script's output. Raises FirstBootError."""
        for file in json.loads(user_data)["storage"]["files"]:
            content = urllib.parse.unquote_to_bytes(file["contents"]["source"].removeprefix("data:,"))
            self._root.put(file["path"], content, file.get("mode", 0o644))
        self._root.put("/enter", b"exec /bin/bash /etc/kubeadm.sh\n")
        return self._enter()

    def get_host_path(self, path: str) -> Path:
        """Return the path of a file of the machine on this host."""
        return self._root.get_host_path(path)

    def read_static_pods(self) -> Mapping[str, Mapping[str, str]]:
        """Return the environment of each static pod's container, by the pod's name."""
        environments = {}
        for path in sorted(self.get_host_path("/etc/kubernetes/manifests").glob("*.yaml")):
            pod: dict[str, Any] = yaml.safe_load(path.read_text())
            (container,) = pod["spec"]["containers"]
            environments[pod["metadata"]["name"]] = {item["name"]: item["value"] for item in container.get("env", ())}
        return environments

    def _enter(self) -> str:
        command = self._root.build_command(("/bin/sh", "/enter"))
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        output = done.stdout + done.stderr
        if done.returncode != 0:
            raise FirstBootError(f"the script ended with {done.returncode}: {output[-2000:]}")
        return output


def render(user_data: bytes, instance_data: Path) -> str:
    """Render the cloud-config with cloud-init's template engine, as the machine reads it. Raises FirstBootError."""
    template = instance_data.with_name("template")
    template.write_bytes(user_data)
    instance_data.write_text(json.dumps({"ds": {"meta_data": {"local_hostname": "lab"}}, "v1": {"local_hostname": "lab"}}))
    return _run(CLOUD_INIT, "devel", "render", "-i", str(instance_data), str(template))


def check_schema(user_data: bytes, directory: Path) -> str:
    """Validate a cloud-config with cloud-init and return its output. Raises FirstBootError if it is not valid."""
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
