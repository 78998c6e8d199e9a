"""Every reader of files refuses at once what is not a regular file, and names it."""

import ast
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.command import run
from tests.support.hostile_files import HOSTILE_FILES, make_fifo
from tests.support.repository import ROOT

from transom.common.regular_files import open_regular_file, read_regular_file, read_regular_text
from transom.hosts.ssh.known_hosts import KnownHostsFile
from transom.hosts.steps.payload_directory import read_lock_file, read_resolved_payload
from transom.kube import kubeconfig
from transom.kube.kubeconfig import ClusterEntry, SelectedContext, User
from transom.kube.tls import build_tls_context
from transom.oci.image_files import extract_files
from transom.sources.directory import iter_values, load_objects

_SECONDS: Final = 20.0


def run_command(*arguments: str) -> str:
    """Return what a command writes, which has to fail."""
    ran = run(*arguments)
    assert ran.code != 0
    return ran.out + ran.err


def read_manifests(path: Path) -> str:
    """Return the findings of a directory of manifests."""
    assert not list(iter_values([str(path.parent)]))
    return str(load_objects([str(path.parent)]).findings)


def read_tls(**files: str) -> Any:
    """Return the TLS context of a kubeconfig that names files."""
    authority = files.pop("authority", None)
    cluster = ClusterEntry("https://api.example", certificate_authority=authority)
    return build_tls_context(SelectedContext(cluster, User(**files), "kubeconfig"))  # type: ignore[arg-type]


def read_payload_lock(path: Path) -> Any:
    """Return the lock of a payload's directory."""
    path.rename(path.with_name("payload.lock"))
    return read_lock_file(path.parent)


def read_payload_file(path: Path) -> Any:
    """Return the `payload.yaml` of a directory."""
    path.rename(path.with_name("payload.yaml"))
    return read_resolved_payload(path.parent)


def run_init(path: Path, *arguments: str) -> str:
    """Return what `transom init` says of a file."""
    answers = ("--proxy", "http://proxy.corp.example:3128", "--host", "10.0.0.11")
    return run_command("init", str(path.with_name("prod")), *answers, *arguments)


def read_ssh_config(path: Path, *lines: str) -> str:
    """Return what a command says that takes a host's key from the directory of `~/.ssh/config`, which has these lines."""
    if lines:
        path.with_name("config").write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HOME", str(path.parent.parent))
        patched.delenv("SSH_AUTH_SOCK", raising=False)
        return run_command("facts", "127.0.0.1", "--port", "1")


READERS: Final[Mapping[str, tuple[str, Callable[[Path], Any]]]] = {
    "manifests in a directory": ("hosts.yaml", read_manifests),
    "a manifest": ("hosts.yaml", lambda path: run_command("validate", "-f", str(path))),
    "kubeconfig": ("config", lambda path: kubeconfig.read_kubeconfig(str(path))),
    "certificate authority": ("ca.crt", lambda path: read_tls(authority=str(path))),
    "client certificate": ("tls.crt", lambda path: read_tls(client_certificate=str(path), client_key=str(path))),
    "token": (
        "token",
        lambda path: kubeconfig._check_files(SelectedContext(ClusterEntry(), User(token_file=str(path)), "kubeconfig")),
    ),
    "known hosts": ("known_hosts", lambda path: KnownHostsFile(path).list_known_keys("10.0.0.7", 22)),
    "payload.yaml": ("payload", read_payload_file),
    "payload.lock": ("payload", read_payload_lock),
    "payload lint": ("p/payload.yaml", lambda path: run_command("payload", "build", str(path.parent))),
    "bundle": ("bundle.pem", lambda path: run_command("trust", "inspect", str(path))),
    "values": ("values.yaml", lambda path: run_command("manifests", "--values", str(path))),
    "inputs": ("inputs.yaml", lambda path: run_command("capi", "worker", "--inputs", str(path))),
    "templates": ("template.yaml", lambda path: run_command("capi", "check", "-f", str(path))),
    "image": ("image.tar", lambda path: extract_files(path, "k", ["kubelet.exe"], path.parent / "taken")),
    "CAs of init": ("corp.pem", lambda path: run_init(path, "--ca", str(path))),
    "SSH key of init": ("id_ed25519", lambda path: run_init(path, "--key", str(path))),
    "an environment": ("env.txt", lambda path: run_command("no-proxy", "lint", "--env", str(path))),
    "ssh_config": (".ssh/config", read_ssh_config),
    "identity of ssh_config": (".ssh/id_ed25519", lambda path: read_ssh_config(path, f"IdentityFile {path}")),
    "default identity": (".ssh/id_ed25519", lambda path: read_ssh_config(path, "Host *")),
    "an SSH key": ("id_ed25519", lambda path: run_command("facts", "10.0.0.7", "--key", str(path))),
}


def settle(action: Callable[[], Any]) -> str:
    """Return what an action returns or raises, as text; fail where it waits."""
    results: list[str] = []

    def work() -> None:
        try:
            results.append(str(action()))
        except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever it is, it is not a wait
            results.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(_SECONDS)
    assert results, "it waits"
    return results[0]


@pytest.mark.parametrize("kind", HOSTILE_FILES)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_refuses_what_is_not_a_file_and_names_it(reader: str, kind: str, tmp_path: Path) -> None:
    name, read = READERS[reader]
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    HOSTILE_FILES[kind](path)
    shown = settle(lambda: read(path))
    assert Path(name).name in shown or "payload" in shown
    assert "Error" in shown or "error" in shown or "cannot" in shown or "not a regular file" in shown or "no file" in shown


@pytest.mark.parametrize("kind", HOSTILE_FILES)
def test_the_error_says_what_it_is(kind: str, tmp_path: Path) -> None:
    HOSTILE_FILES[kind](tmp_path / "x")
    with pytest.raises(OSError, match="not a regular file") as raised:
        read_regular_file(tmp_path / "x")
    assert raised.value.filename == str(tmp_path / "x")


def test_a_fifo_that_takes_the_place_of_a_file_after_a_look_at_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config"
    path.write_text("apiVersion: v1")
    exists = Path.exists

    def look_and_swap(self: Path, **options: Any) -> bool:
        result = exists(self, **options)
        if self == path and result:
            path.unlink()
            make_fifo(path)
        return result

    monkeypatch.setattr(Path, "exists", look_and_swap)
    assert "FIFO" in settle(lambda: kubeconfig.read_kubeconfig(str(path)))


def test_what_a_shell_hands_over_is_read(tmp_path: Path) -> None:
    """`<(command)` is the path of a pipe of this process."""
    reading, writing = os.pipe()
    os.write(writing, b"a: 1\r\nb: 2\r\n")
    os.close(writing)
    try:
        assert read_regular_text(f"/dev/fd/{reading}") == "a: 1\nb: 2\n"
    finally:
        os.close(reading)


def test_files_and_links_to_files_are_read_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_regular_file(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_regular_file(tmp_path / "file", 4)
    with pytest.raises(IsADirectoryError):
        open_regular_file(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular_file(tmp_path / "absent")


_OWN: Final = {
    "capi/image/files/transom_boothook.py",
    "common/regular_files.py",
    # files of the package itself
    "common/revision.py",
    "manifests/install.py",
    "capi/worker/file_content.py",
    "capi/image/image_recipe.py",
    "capi/bootstrap/machine_files.py",
    "hosts/scripts/template.py",
    "payloads/shipped_payloads.py",
    "pods/namespace_services.py",
    # what this process has just written, and /proc
    "cli/commands/demo.py",
    "cli/commands/simulate.py",
}


def iter_direct_reads(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that open or read a path without `transom.common.regular_files`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            modes = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
            if node.func.attr in ("read_bytes", "read_text") or (node.func.attr == "open" and modes[:1] in (["rb"], ["r"])):
                yield node.lineno


def test_no_other_code_opens_a_file_to_read_it() -> None:
    source = ROOT / "src" / "transom"
    reads = [
        f"{name}:{line}"
        for file in sorted(source.rglob("*.py"))
        if (name := file.relative_to(source).as_posix()) not in _OWN
        for line in iter_direct_reads(ast.parse(file.read_text("utf-8")))
    ]
    assert not reads
