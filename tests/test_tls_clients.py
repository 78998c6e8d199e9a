"""TLS to servers of others: none of them chooses how long this side computes for a handshake."""

import ast
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from lab.authority import Authority
from tests.support.repository import ROOT

from transom.common.tls_clients import create_bare_context, create_client_context
from transom.kube.connection import connect_untrusted_cluster
from transom.kube.kubeconfig import choose_untrusted_context

PACKAGE = ROOT / "src" / "transom"
ALLOWED = {"common/tls_clients.py", "kube/tls.py", "webhook/server.py"}
"""What makes the contexts; the class of those for API servers, which is restricted where it is made; and a server's."""


def list_exchanges(context: ssl.SSLContext) -> set[str]:
    """Return the key exchanges of the cipher suites that a context offers."""
    return {suite["kea"] for suite in context.get_ciphers()}


@pytest.mark.parametrize("create", [create_client_context, create_bare_context])
def test_no_server_chooses_a_group_of_a_finite_field(create: Callable[[], ssl.SSLContext]) -> None:
    assert list_exchanges(create()) <= {"kx-ecdhe", "kx-rsa", "kx-any"}
    assert "kx-ecdhe" in list_exchanges(create())


async def test_nor_does_the_api_server_of_a_workload_cluster() -> None:
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    connection = connect_untrusted_cluster(choose_untrusted_context(kubeconfig, "Secret a/b"))
    try:
        assert list_exchanges(connection.transport._context) <= {"kx-ecdhe", "kx-rsa", "kx-any"}  # type: ignore[attr-defined]
    finally:
        await connection.close()


def test_authorities_of_a_text_are_trusted_alone(tmp_path: Path) -> None:
    Authority(tmp_path)
    context = create_client_context((tmp_path / "ca.crt").read_text())
    assert len(context.get_ca_certs()) == 1


def test_every_context_for_a_server_is_made_in_one_place() -> None:
    """aiohttp makes one of its own where a request names none: `ssl=` stands in each that may go to an https URL."""
    places = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("ssl.create_default_context", "ssl.SSLContext"):
                places.add(file.relative_to(PACKAGE).as_posix())
    assert places <= ALLOWED
