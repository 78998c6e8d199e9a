"""Find the places of the program where bytes from outside enter, by the calls that take them in.

A call counts by its full name where the module imports it, and by its last name where it is a method.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT

PACKAGE: Final = ROOT / "src" / "transom"
CALLS: Final = frozenset(
    {
        # sockets and programs
        "aiohttp.ClientSession",
        "aiohttp.web.Server",
        "asyncio.create_subprocess_exec",
        "asyncio.create_subprocess_shell",
        "asyncio.open_connection",
        "asyncio.start_server",
        "asyncio.start_unix_server",
        "asyncssh.connect",
        "asyncssh.listen",
        "asyncssh.sftp.start_sftp_client",
        "socket.create_connection",
        "socket.create_server",
        "socket.socket",
        "subprocess.Popen",
        "subprocess.check_output",
        "subprocess.run",
        "urllib.request.urlopen",
        "transom.kube.connection.connect",
        "transom.kube.connection.connect_untrusted_cluster",
        # files
        "open",
        "os.open",
        "io.open",
        "transom.common.archives.open_member",
        "transom.common.archives.open_tar",
        "transom.common.regular_files.open_regular_file",
        "transom.common.regular_files.read_regular_file",
        "transom.common.regular_files.read_regular_text",
        "sys.stdin.buffer.read",
        "sys.stdin.read",
        "typer.prompt",
        # what is packed becomes larger
        "bz2.decompress",
        "gzip.GzipFile",
        "gzip.decompress",
        "lzma.decompress",
        "tarfile.open",
        "yaml.load",
        "yaml.load_all",
        "yaml.parse",
        "yaml.safe_load",
        "yaml.safe_load_all",
        "zipfile.ZipFile",
        "zlib.decompress",
        "zlib.decompressobj",
    }
)
METHODS: Final = frozenset(
    {
        "create_connection",
        "create_process",
        "create_server",
        "create_session",
        "create_unix_server",
        "execute",
        "list_objects",
        "open_websocket",
        "read_bytes",
        "read_text",
        "urlopen",
        "ws_connect",
    }
)
"""Names that mean a way in on whatever object they are called."""
_SNAPSHOTS: Final = ("capi/check/", "cli/", "diagnosis/")
"""Where `list_objects` is that of a snapshot, or of a person who ends the command when it takes too much."""


@dataclass(frozen=True, order=True)
class Door:
    """A function that takes bytes in: `hosts/ssh/connections.py open_connection`, and the calls by which it does."""

    place: str
    calls: tuple[str, ...]


def find_doors(package: Path = PACKAGE) -> list[Door]:
    """Return every function of the package, or module, that makes one of the calls."""
    found: dict[str, set[str]] = {}
    for file in sorted(package.rglob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        names = dict(_read_imports(tree))
        for function, call in _iterate_calls(tree, ""):
            name = _resolve(call.func, names)
            if name in CALLS or (name.startswith("?.") and name.rpartition(".")[2] in METHODS):
                folder = file.relative_to(package).as_posix()
                if name.endswith("list_objects") and folder.startswith(_SNAPSHOTS):
                    continue
                place = f"{file.relative_to(package).as_posix()} {function}".strip()
                found.setdefault(place, set()).add(name.removeprefix("?."))
    return sorted(Door(place, tuple(sorted(calls))) for place, calls in found.items())


def _read_imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _iterate_calls(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call with the outermost function, or method of a class, in which it stands."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield function, child
        inner = function
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and "()" not in function:
            inner = f"{function}.{child.name}".strip(".")
            if not isinstance(child, ast.ClassDef):
                inner += "()"
        yield from _iterate_calls(child, inner)


def _resolve(function: ast.expr, names: dict[str, str]) -> str:
    """Return the full name of what is called; `?.name` of a method of something that is no module."""
    parts: list[str] = []
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        return ".".join(("?", *reversed(parts)))
    if function.id in names:
        return ".".join((names[function.id], *reversed(parts)))
    return ".".join(("?", *reversed(parts))) if parts else function.id
