"""``python -m lab.prepare``: builds what the tests need and the cache does not have, and says what it builds.

``python -m lab.prepare demo`` builds what `scripts/demo` needs alone.

The first time that takes about thirty-five minutes on two cores. A second call waits for the first. A killed call
leaves nothing, and the next call builds what is missing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from image.debian import DebianError
from image.progress import number_steps
from image.python import PythonError

from lab import (
    bare_debian,
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
from transom.manifests.definitions import build_crds

PARTS: tuple[Callable[[], object], ...] = (
    template.build_template,
    lambda: template.build_template(bare=True),
    lambda: template.build_template(containerd=True),
    kubernetes.build_binaries,
    kubernetes.build_kubeadm,
    kubernetes.build_kubelet,
    lambda: build.build_program(build.CRI_PULL),
    lambda: build.build_program(build.ACTIONLINT),
    lambda: build.build_program(build.PACKER),
    lambda: build.build_program(build.KUSTOMIZE),
    lambda: build.build_program(build.KUBECONFORM),
    lambda: build.build_program(build.HELM),
    lambda: build.build_program(build.CRDIFY),
    lambda: build.build_program(build.OLM),
    lambda: build.build_program(build.RUNTIME),
    lambda: build.build_program(build.LINUX_RUNTIME),
    lambda: build.build_program(build.SCANNER),
    lambda: build.build_program(build.get_kubeadm_program()),
    payload.build_directory,
    operator_image.build_layout,
    operator_image.build_payload_layout,
    operator_image.build_wheels,
    cluster_api.build_bootstrap_provider,
    cluster_api.read_definitions,
    flux.read_definitions,
    prometheus.fetch_programs,
    infrastructure.read_definitions,
    openshift.read_definitions,
    bare_debian.build_archive,
    control_plane.build_first_data,
    lambda: control_plane.build_first_data(build_crds()),
)
"""From the quickest, so that what is missing on the machine shows soon."""

FAULTS = (
    bare_debian.BareDebianError,
    build.BuildError,
    golang.GoError,
    ControlPlaneError,
    cluster_api.ClusterApiError,
    operator_image.ImageError,
    DebianError,
    PythonError,
)


DEMO_PARTS: tuple[Callable[[], object], ...] = (lambda: template.build_template(containerd=True),)


def main(which: str) -> None:
    """Make each part; exits 1 with what the compiler said."""
    began = time.monotonic()
    parts = DEMO_PARTS if which == "demo" else PARTS
    for number, part in enumerate(parts, 1):
        try:
            with number_steps(number, len(parts)):
                part()
        except FAULTS as error:
            sys.exit(f"lab.prepare: {error}")
    print(f"everything is built ({time.monotonic() - began:.0f} s)", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
