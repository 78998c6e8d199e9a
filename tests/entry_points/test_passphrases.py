"""A key behind a passphrase in a tenant's kubeconfig is refused: OpenSSL would ask for it at the terminal, and wait."""

import subprocess
import sys

from tests.entry_points.attacks import KUBECONFIG_VARIANTS
from tests.support.repository import ROOT
from tests.support.waiting import PATIENCE

PROGRAM = """
from tests.controllers.propagation.test_foreign_clusters import connected
from tests.entry_points.attacks import KUBECONFIG_VARIANTS
from transom.kube.errors import ConfigurationError
try:
    connected(KUBECONFIG_VARIANTS["key behind a passphrase"]())
except ConfigurationError as error:
    print(error)
"""


def test_nobody_is_asked_for_a_passphrase() -> None:
    assert "key behind a passphrase" in KUBECONFIG_VARIANTS
    # a session of its own has no terminal, so OpenSSL would read the standard input, which never ends
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.wait(PATIENCE) == 0
            assert process.stdout is not None
            assert process.stderr is not None
            assert "passphrase" in process.stdout.read()
            assert process.stderr.read() == ""
        finally:
            process.kill()
