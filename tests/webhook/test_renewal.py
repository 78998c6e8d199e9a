"""The process that makes certificates, and what becomes of it without the server that asked."""

import subprocess
import sys
from datetime import UTC, datetime

import msgspec
import pytest

from transom.webhook.renewal import RenewalRequest, renew_certificates
from transom.webhook.webhook_secret import LIVES

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ORDER = RenewalRequest({}, {}, ("transom-webhook.transom-system.svc",), NOW, None, LIVES)


async def test_a_server_has_its_certificates_made() -> None:
    made = await renew_certificates(ORDER.data, None, ORDER.hosts, ORDER.now, ORDER.trusted, ORDER.lives)
    assert made.expires == NOW + LIVES.serving
    assert "BEGIN CERTIFICATE" in made.holdings.certificate


@pytest.mark.parametrize("asked", [msgspec.json.encode(ORDER), b""], ids=["asked", "not asked yet"])
def test_the_server_is_killed_meanwhile(asked: bytes) -> None:
    """Seen: two lines of a BrokenPipeError among the JSON of its log."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-m", renew_certificates.__module__], stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(asked)
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
