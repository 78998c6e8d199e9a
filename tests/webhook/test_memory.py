"""What a replica has in memory from its start: a quarter of it could be what it never uses."""

import subprocess
import sys

import pytest

LOADED = """
import sys
sys.argv = ["transom", "webhook", "--kubeconfig", "/nowhere"]
from transom.__main__ import main
try:
    main()
except SystemExit:
    pass
import transom.webhook.webhook, transom.operations.server
print(*sys.modules)
print(open("/proc/self/maps").read())
"""


@pytest.fixture(scope="module")
def loaded() -> tuple[set[str], str]:
    """The modules that are loaded once the options have been read, and what is mapped into the process."""
    done = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True)
    modules, _, maps = done.stdout.partition("\n")
    return set(modules.split()), maps


def test_a_replica_has_nothing_that_it_never_uses(loaded: tuple[set[str], str]) -> None:
    """structlog imports rich where it is installed, for the console renderer that a server never uses (structlog/dev.py)."""
    modules, _ = loaded
    assert {"aiohttp.web", "transom.webhook.server"} <= modules
    unused = {
        "asyncssh",
        "cryptography",
        "transom.hosts",
        "transom.windows.ledger",
        "transom.windows.parts",
    }
    assert modules & unused == set()


def test_a_replica_has_no_library_of_cpp(loaded: tuple[set[str], str]) -> None:
    """frozenlist's switch is heeded (frozenlist/__init__.py, `NO_EXTENSIONS`), and nothing else needs it."""
    modules, maps = loaded
    assert "frozenlist" in modules
    assert "libssl" in maps
    assert "libstdc++" not in maps
