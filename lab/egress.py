"""The way out of the lab: squid, which decrypts TLS, and behind it an image registry under a name that only squid resolves."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab import images
from lab.authority import Authority
from lab.mirror import Mirror
from lab.network import Network
from lab.operator_image import Registry
from lab.ports import reserve
from lab.process import Process

REGISTRY = "registry.corp.example"
START_SECONDS = 120
HELPERS = Path("/usr/lib/squid")


class EgressError(Exception):
    """squid or the registry did not start; the message holds the end of its log."""


@dataclass(frozen=True)
class Request:
    """One line of squid's log: ``TCP_TUNNEL/200``, ``CONNECT``, URL, and the user or ``-``."""

    status: str
    method: str
    url: str
    user: str


class Egress:
    """A proxy on a network, and the registry behind it. A context manager stops both and removes their files."""

    def __init__(
        self,
        network: Network,
        user: str = "",
        password: str = "",
        tunnels: Mapping[str, str] | None = None,
        mirror: Mirror | None = None,
        downloads: Path | None = None,
    ) -> None:
        """Start both, with the images of `lab.images` in the registry.

        Args:
           network: the network in which the proxy listens.
           user: with a user, the proxy requires basic authentication.
           password: any string without a line break.
           tunnels: names that only squid resolves, each with its address; squid does not decrypt these connections.
           mirror: servers whose names only squid resolves, started with a certificate that squid trusts.
           downloads: a directory in which squid keeps what it fetches; squid then also serves on port 80, as the server that
               each request names.
        """
        self._network = network
        self._tunnels, self._mirror, self._downloads = dict(tunnels or {}), mirror, downloads
        self._user, self._password = user, password
        self.directory = Path(tempfile.mkdtemp(prefix="transom-egress-"))
        self.directory.chmod(0o755)
        self.access_log = self.directory / "access.log"
        self._origin = Authority(_make_directory(self.directory / "origin"), "lab origin CA")
        self._interception_number = 0
        self._create_interception()
        self._registry_address = "127.0.0.1", reserve()
        self.port = reserve(network.address, 3128)
        self._squid: Process | None = None
        self._registry: Process | None = None
        try:
            self._registry = self._start_registry()
            if mirror is not None:
                mirror.start(*self._origin.issue("mirror", "mirror", addresses=tuple(mirror.names)))
            self._start_squid()
            host, port = self._registry_address
            images.push(f"https://{host}:{port}", self._origin.certificate_file)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Egress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what a client is told -----------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The proxy's URL without credentials."""
        return f"http://{self._network.proxy_host}:{self.port}"

    @property
    def url_with_credentials(self) -> str:
        """The proxy's URL with user and password, percent-encoded."""
        credentials = f"{urllib.parse.quote(self._user, safe='')}:{urllib.parse.quote(self._password, safe='')}@"
        return f"http://{credentials}{self._network.proxy_host}:{self.port}"

    @property
    def certificate(self) -> str:
        """The CA that squid signs with, in PEM."""
        return self._interception.certificate_file.read_text()

    def format_image(self, tag: str) -> str:
        """Return the reference of an image: ``none`` has no layers, ``1`` has one; ``linux`` is for Linux."""
        return f"{REGISTRY}:{self._registry_address[1]}/x:{tag}"

    @property
    def registry(self) -> Registry:
        """The registry as nodes of its own network reach it, without the proxy."""
        host, port = self._registry_address
        return Registry(f"{host}:{port}", self._origin.certificate_file)

    # ---- what an operator does -----------------------------------------------------------------------------------

    def rotate(self) -> str:
        """Let squid sign with a new CA from now on; returns it in PEM."""
        if self._squid:
            self._squid.stop()
        self._create_interception()
        self._start_squid()
        return self.certificate

    def list_requests(self) -> list[Request]:
        """Return the requests that squid received, oldest first."""
        # a line that is being written has no end yet
        lines = self.access_log.read_text().split("\n")[:-1] if self.access_log.exists() else []
        result = [Request(*line.split(" ", 3)) for line in lines]
        return [request for request in result if request.method != "-"]

    def close(self) -> None:
        """Stop both and remove their files."""
        for process in (self._squid, self._registry):
            if process:
                process.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    # ---- parts ---------------------------------------------------------------------------------------------------

    def _create_interception(self) -> None:
        self._interception_number += 1
        number = self._interception_number
        directory = _make_directory(self.directory / f"interception-{number}")
        # OpenSSL looks an issuer up by its name: where another lab is the way out, its CA is trusted, too
        self._interception = Authority(directory, f"lab interception CA {number} of {self.directory.name}", for_wine=True)

    def _start_registry(self) -> Process:
        certificate, key = self._origin.issue("registry", REGISTRY, addresses=(REGISTRY, "127.0.0.1"))
        host, port = self._registry_address
        settings = self.directory / "registry.yml"
        settings.write_text(
            "version: 0.1\n"
            "log: {level: warn, accesslog: {disabled: true}}\n"
            f"storage: {{filesystem: {{rootdirectory: {self.directory}/registry}}}}\n"
            f'http: {{addr: "{host}:{port}", tls: {{certificate: {certificate}, key: {key}}}}}\n'
        )
        process = Process(["docker-registry", "serve", settings], self.directory / "registry.log")
        _wait_until_listening(process, host, port)
        return process

    def _start_squid(self) -> None:
        database = self.directory / f"certificates-{self._interception_number}"
        _run([HELPERS / "security_file_certgen", "-c", "-s", database, "-M", "4MB"])
        known = {REGISTRY: self._registry_address[0], **self._tunnels, **(self._mirror.names if self._mirror else {})}
        (self.directory / "hosts").write_text("".join(f"{address} {name}\n" for name, address in known.items()))
        if self._user:
            _run(["htpasswd", "-ic", self.directory / "passwords", self._user], self._password)
        settings = self.directory / "squid.conf"
        settings.write_text(self._render_squid_settings(database))
        _run(["chown", "-R", "proxy:proxy", self.directory])
        name = f"lab{time.monotonic_ns()}"  # squid shares memory by this name
        command: list[str | Path] = ["squid", "-N", "-n", name, "-f", settings]
        if self._downloads:
            command = self._with_downloads(self._downloads, command)
        self._squid = Process(command, self.directory / "squid.log", ending="INT")
        _wait_until_listening(self._squid, self._network.address, self.port)

    def _with_downloads(self, downloads: Path, command: list[str | Path]) -> list[str | Path]:
        """Return what runs squid where it finds the downloads: it gives up root's rights, and could not enter root's home."""
        point = _make_directory(self.directory / "downloads")
        downloads.mkdir(parents=True, exist_ok=True)
        _run(["chown", "proxy:proxy", downloads])
        enter = 'mount --bind "$1" "$2"; shift 2; "$@" -z; exec "$@"'
        return ["unshare", "--mount", "sh", "-ec", enter, "enter", downloads, point, *command]

    def _render_squid_settings(self, database: Path) -> str:
        here, authority = self.directory, self._interception
        certificate, key = authority.certificate_file, authority.key_file
        authentication = (
            f"auth_param basic program {HELPERS}/basic_ncsa_auth {here}/passwords\n"
            "auth_param basic children 2 startup=1\n"
            "acl known proxy_auth REQUIRED\n"
            "http_access deny !known\n"
        )
        no_cache = "cache deny all\n"
        kept = (
            f"http_port {self._network.address}:80 accel vhost allow-direct\n"
            "maximum_object_size 1 GB\n"
            f"cache_dir ufs {here}/downloads 2000 16 256\n"
            # a file without a date of its own; the lists of apt have one, and are asked for anew
            "refresh_pattern \\.(deb|whl|tar\\.gz|zip)$ 100000 100% 100000\n"
        )
        # where this machine needs a proxy itself, squid goes through it, also with what it decrypted (release notes of Squid 5)
        parent = urllib.parse.urlsplit(urllib.request.getproxies().get("https", "")) if self._downloads else None
        if parent and parent.hostname:
            login = f" login={parent.username}:{parent.password}" if parent.username else ""
            kept += (
                f"cache_peer {parent.hostname} parent {parent.port or 80} 0 no-query no-digest default{login}\n"
                "never_direct allow all\n"
            )
        names = " ".join(self._tunnels)
        spliced = f"acl tunnels dstdomain {names}\nssl_bump splice tunnels\n" if names else ""
        return (
            # else it looks the machine's own name up, which may take minutes where nobody knows it
            "visible_hostname egress.lab.example\n"
            # else the squid of another lab, through which this one goes out, refuses requests as a forwarding loop
            f"unique_hostname {here.name}.lab.example\n"
            f"http_port {self._network.address}:{self.port} ssl-bump tls-cert={certificate} tls-key={key} "
            "generate-host-certificates=on dynamic_cert_mem_cache_size=4MB\n"
            f"sslcrtd_program {HELPERS}/security_file_certgen -s {database} -M 4MB\n"
            "sslcrtd_children 2 startup=1\n"
            "acl step1 at_step SslBump1\n"
            f"{spliced}"
            "ssl_bump peek step1\n"
            "ssl_bump bump all\n"
            f"tls_outgoing_options cafile={self._origin.certificate_file}\n"
            f"hosts_file {here}/hosts\n"
            f"{authentication if self._user else ''}"
            "http_access allow all\n"
            f"{kept if self._downloads else no_cache}"
            "logformat lab %Ss/%03>Hs %rm %ru %un\n"
            f"access_log stdio:{self.access_log} lab\n"
            f"cache_log {here}/cache.log\n"
            f"pid_filename {here}/squid.pid\n"
            f"coredump_dir {here}\n"
            "cache_effective_user proxy\n"
            "shutdown_lifetime 0 seconds\n"
            "pinger_enable off\n"
        )


def _make_directory(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _run(command: list[str | Path], text: str = "") -> None:
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if done.returncode != 0:
        raise EgressError(f"{Path(command[0]).name} ended with {done.returncode}: {done.stderr.decode(errors='replace')}")


def _wait_until_listening(process: Process, address: str, port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection((address, port), 1).close()
        except OSError:
            if time.monotonic() > deadline or process.has_ended():
                raise EgressError(f"{process.log.stem} did not start:\n{process.log.read_text()[-2000:]}") from None
            time.sleep(0.05)
        else:
            return
