"""A cluster that is not the one that was meant: each command says which it asked, what is wrong, and what to do."""

from pathlib import Path

import pytest
from tests.cli.servers import answering, kubeconfig, saying
from tests.support.command import run

from transom import __version__

pytestmark = pytest.mark.server
ASKING = (
    ("validate",),
    ("render",),
    ("userdata",),
    ("diff",),
    ("apply", "--context", "staging"),
    ("rollback", "--context", "staging"),
    ("no-proxy", "merge"),
    ("pods", "outdated"),
    ("pods", "explain", "web"),
    ("capi", "worker", "--cluster", "c", "--provider", "aws", "--context", "staging"),
)


@pytest.mark.parametrize("command", ASKING, ids="-".join)
def test_definitions_that_are_not_there(command: tuple[str, ...], tmp_path: Path) -> None:
    """A cluster without Transom is no cluster in which nothing is wrong."""
    with saying(404, "NotFound", "the server could not find the requested resource") as server:
        config = kubeconfig(tmp_path / "config", server)
        told = run(*command, "--kubeconfig", config)
    assert (told.code, told.out) == (1, "")
    assert f"{server} (context staging of {config}): Transom's CRDs do not exist" in told.err
    assert "transom manifests --part crds | kubectl apply -f -" in told.err


TAKING_A_NAMESPACE = (
    *ASKING,
    ("status",),
    ("version",),
    ("adopt", "--from", "wmco"),
    ("uninstall", "--context", "staging"),
    ("uninstall", "--context", "staging", "--leave-hosts"),
)


@pytest.mark.parametrize("command", TAKING_A_NAMESPACE, ids="-".join)
def test_a_namespace_that_is_not_there(command: tuple[str, ...], tmp_path: Path) -> None:
    """It is a slip of the finger, and no place in which nothing is wrong."""
    # a pod's namespace is asked for after Transom's own objects, which are somewhere else
    flag = "--transom-namespace" if command[0] == "pods" else "-n"
    with saying(404, "NotFound", 'namespaces "nosuch" not found') as server:
        config = kubeconfig(tmp_path / "config", server)
        told = run(*command, "--kubeconfig", config, flag, "nosuch")
    assert told.code == 1
    assert f"{flag} nosuch: {server} (context staging of {config}) has no such namespace: name another" in told.err


@pytest.mark.parametrize(
    ("code", "reason", "message", "told"),
    [
        (401, "Unauthorized", "Unauthorized", "the credentials are not taken, or have expired: log in again"),
        (403, "Forbidden", 'secrets is forbidden: User "u" cannot list', "ask for this right, or name another --context"),
        (500, "InternalError", "etcd gone", "etcd gone"),
    ],
)
@pytest.mark.parametrize("command", [("validate",), ("adopt", "--from", "wmco"), ("uninstall", "--context", "staging")])
def test_a_server_that_does_not_answer_the_question(
    command: tuple[str, ...], code: int, reason: str, message: str, told: str, tmp_path: Path
) -> None:
    with saying(code, reason, message) as server:
        config = kubeconfig(tmp_path / "config", server)
        ran = run(*command, "--kubeconfig", config)
    assert ran.code == 1
    assert f"{server} (context staging of {config})" in ran.err
    assert message in ran.err
    assert told in ran.err
    assert "hunter2" not in ran.err


PAGE = b"<html><head><title>Sign in</title></head></html>"
ELSEWHERE = "Is this the cluster that is meant"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 48\r\n\r\n" + PAGE, "HTTP 502 and an HTML page"),
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 48\r\n\r\n" + PAGE, "log in again"),
        (b"HTTP/1.1 302 Found\r\nLocation: https://login.x/\r\nContent-Length: 0\r\n\r\n", "a proxy or login page answers"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "HTTP 403: ask for this right"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 48\r\n\r\n" + PAGE, ELSEWHERE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 480\r\n\r\n" + PAGE, "the answer was cut before its end. " + ELSEWHERE),
        (b"SSH-2.0-OpenSSH_for_Windows_9.5\r\n", "the server does not speak HTTP. " + ELSEWHERE),
        (b"", "the server ended the connection without an answer. " + ELSEWHERE),
    ],
    ids=["page", "login-page", "redirect", "empty", "page-as-an-answer", "cut", "ssh", "nothing"],
)
def test_what_is_no_api_server(answer: bytes, told: str, tmp_path: Path) -> None:
    """Nobody is shown a page for browsers, nor what a library calls its errors."""
    with answering(answer) as server:
        config = kubeconfig(tmp_path / "config", server)
        ran = run("status", "--kubeconfig", config)
    assert ran.code == 1
    assert f"{server} (context staging of {config}): " in ran.err
    assert told in ran.err
    assert "Sign in" not in ran.err
    assert "Error" not in ran.err


def test_what_is_asked_is_told_on_request(tmp_path: Path) -> None:
    with saying(401, "Unauthorized", "Unauthorized") as server:
        ran = run("validate", "-v", "--kubeconfig", kubeconfig(tmp_path / "config", server))
        quiet = run("validate", "--kubeconfig", kubeconfig(tmp_path / "config", server))
    assert "method=GET path=/" in ran.err
    assert "status=401" in ran.err
    assert "hunter2" not in ran.err
    assert len(quiet.err.splitlines()) == 1


def test_the_version_of_this_program_and_of_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    own = f"transom {__version__}\n"
    alone = run("version")
    assert (alone.code, alone.out) == (0, own)
    assert "~/.kube/config: no such file" in alone.err
    assert run("version", "--client", "-o", "json").json["client"] == __version__
    with saying(401, "Unauthorized", "Unauthorized") as server:
        refused = run("version", "--kubeconfig", kubeconfig(tmp_path / "config", server))
    assert (refused.code, refused.out) == (1, own)
    assert "log in again" in refused.err


def test_a_server_that_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = kubeconfig(tmp_path / "config", "https://127.0.0.1:1")
    monkeypatch.setenv("KUBECONFIG", config)
    ran = run("validate")
    assert ran.code == 1
    assert f"transom: https://127.0.0.1:1 (context staging of {config}): " in ran.err
    assert "Connection refused" in ran.err
    assert "Is this the cluster that is meant" in ran.err
    assert "ssl:default" not in ran.err


def test_a_name_that_nobody_has(tmp_path: Path) -> None:
    ran = run("diff", "--kubeconfig", kubeconfig(tmp_path / "config", "https://nobody.invalid:6443"))
    assert ran.code == 1
    assert "nobody.invalid cannot be resolved" in ran.err


def test_no_kubeconfig_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    ran = run("validate")
    assert ran.code == 2
    assert "~/.kube/config: no such file; --kubeconfig or KUBECONFIG can name another; -f PATH reads" in ran.err
