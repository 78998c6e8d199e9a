"""User data that was rendered, and its PowerShell."""

from cloudbaseinit.plugins.common import execcmd
from tests.windows.authorities import authority

from transom.proxy.secret import Secret
from transom.proxy.settings import Egress

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExampleExam"
PROXIED = Egress(
    http_proxy=Secret("http://alice:hunter2%25%5E%26%21x@proxy.corp.example:3128"),
    https_proxy=Secret("http://alice:hunter2%25%5E%26%21x@proxy.corp.example:3128"),
    no_proxy=".cluster.local,10.0.0.0/16",
    trust=(authority("Root"),),
)


def powershell(text: str) -> str:
    """The one script that cloudbase-init finds."""
    sections = list(execcmd._ec2_find_sections(text.encode()))
    assert [kind for _, kind in sections] == [execcmd.POWERSHELL_TAG]
    return bytes(sections[0][0]).decode()
