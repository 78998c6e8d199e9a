"""``python -m lab.prepare``: builds what the tests need and the cache does not have, and says what it builds.

The first time that takes about twenty minutes on two cores. A second call at the same time waits for the first; a call that was
killed leaves nothing, and the next one goes on with what is missing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from image.debian import DebianError
from image.progress import position
from image.python import PythonError

from lab import (
    build,
    cluster_api,
    control_plane,
    flux,
    golang,
    infrastructure,
    kubernetes,
    openshift,
    operator_image,
    payload,
    prometheus,
    template,
)
from lab.kubernetes import ControlPlaneError
from transom.manifests.definitions import definitions

PARTS: tuple[Callable[[], object], ...] = (
    template.template,
    lambda: template.template(bare=True),
    lambda: template.template(containerd=True),
    kubernetes.binaries,
    kubernetes.kubeadm,
    kubernetes.kubelet,
    lambda: build.program(build.CRI_PULL),
    lambda: build.program(build.ACTIONLINT),
    lambda: build.program(build.PACKER),
    lambda: build.program(build.KUSTOMIZE),
    lambda: build.program(build.KUBECONFORM),
    lambda: build.program(build.HELM),
    lambda: build.program(build.CRDIFY),
    lambda: build.program(build.OLM),
    lambda: build.program(build.RUNTIME),
    lambda: build.program(build.LINUX_RUNTIME),
    lambda: build.program(build.SCANNER),
    lambda: build.program(build.kubeadm_program()),
    payload.directory,
    operator_image.layout,
    operator_image.payload_layout,
    operator_image.wheels,
    cluster_api.bootstrap_provider,
    cluster_api.definitions,
    flux.definitions,
    prometheus.programs,
    infrastructure.definitions,
    openshift.definitions,
    control_plane.first_data,
    lambda: control_plane.first_data(definitions()),
)
"""From the quickest, so that what is missing on the machine shows soon."""

FAULTS = (
    build.BuildError,
    golang.GoError,
    ControlPlaneError,
    cluster_api.ClusterApiError,
    operator_image.ImageError,
    DebianError,
    PythonError,
)


def main() -> None:
    """Make each part; exits 1 with what the compiler said."""
    began = time.monotonic()
    for number, part in enumerate(PARTS, 1):
        try:
            with position(number, len(PARTS)):
                part()
        except FAULTS as error:
            sys.exit(f"lab.prepare: {error}")
    print(f"everything is built ({time.monotonic() - began:.0f} s)", file=sys.stderr)


if __name__ == "__main__":
    main()
