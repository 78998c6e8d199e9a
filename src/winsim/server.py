"""The SSH server before the simulated hosts, and `Simulator`, which holds them."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Literal, NoReturn, Self, TypeVar

import asyncssh

from transom.windows.registry.edits import Edit
from winsim.editions import SERVER_2022, Edition
from winsim.expansion import BatchVariables
from winsim.faults import Fault
from winsim.filesystem import SimulatedFile
from winsim.host import Host
from winsim.interpreter import Shell
from winsim.processes import Job
from winsim.sftp import Sftp
from winsim.sftp_limits import get_limits
from winsim.streams import Forward, Streams

_Result = TypeVar("_Result")
_SESSIONS = 10  # MaxSessions of sshd_config, its default
_SAME_IN_POWERSHELL = re.compile(r"[A-Za-z0-9\\:._/ -]*")
_PROMPT = re.compile(r"\\cmd\.exe$", re.IGNORECASE)
"""What reads its lines from standard input."""
_SERVICES: Mapping[str, tuple[str, ...]] = {"containerd": (), "kubelet": ("containerd",)}


class ServerConnection(asyncssh.SSHServer):
    """One connection to one host: who may log in, what is asked for, and what ends with it."""

    def __init__(self, simulator: "Simulator") -> None:
        self._simulator = simulator
        self._host: Host | None = None
        self._connection: asyncssh.SSHServerConnection | None = None
        self._jobs: set[Job] = set()
        self._requests = self._channels = 0
        self._hangs = False
        self._lost = asyncio.Event()
        self._sftp: list[Sftp] = []
        self._during: Callable[[str], None] | None = None
        self._in_order = asyncio.Lock()

    @property
    def host(self) -> Host:
        """The host that the connection goes to."""
        if self._host is None:
            raise asyncssh.ConnectionLost("not connected")
        return self._host

    # --- life

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Find the host by the port; close the connection if the host is down or refuses connections."""
        self._connection = conn
        self._host = host = self._simulator.by_port.get(conn.get_extra_info("sockname")[1])
        if host is None or not host.up or host.faults.refuses:
            conn.abort()
            return
        host.connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the processes that the connection started, as Windows does with a session's job object."""
        if self._host is not None and self._connection is not None:
            self._host.connections.discard(self._connection)
        for job in self._jobs:
            job.end()
        for session in self._sftp:
            session.close_handles()
        self._lost.set()

    # --- login

    def begin_auth(self, username: str) -> bool:
        """Require authentication for every user."""
        return True

    def public_key_auth_supported(self) -> bool:
        """Return True: public keys are the only authentication method."""
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Return True for the administrator with a key of the authorized_keys file of Windows' OpenSSH."""
        if username.casefold() in self.host.disabled_users:
            return False
        if self.host.key_types is not None and key.get_algorithm() not in self.host.key_types:
            return False
        present = self.host.files.find(self.host.authorized_keys)
        lines = bytes(present.data).splitlines() if isinstance(present, SimulatedFile) else []
        known = {word for line in lines if not line.startswith(b"#") for word in line.split()}
        return username == self.host.username and b64encode(key.public_data) in known

    def auth_completed(self) -> None:
        """Count the login."""
        self.host.traffic.connections += 1

    # --- requests

    async def request(self, kind: str, detail: str, act: Callable[[], Awaitable[_Result]]) -> _Result:
        """Count and run a request and apply the scheduled fault. Raises ConnectionLost after the connection ended."""
        if self._lost.is_set():
            raise asyncssh.ConnectionLost("the connection has ended")
        self._requests += 1
        host = self.host
        host.run_interlopers()
        fault = host.faults.take_fault(self._requests)
        host.traffic.requests.append(f"{kind} {detail}".rstrip())
        if kind not in ("channel", "exec", "sftp"):
            host.traffic.sftp_requests += 1
        if fault is not None and fault.when == "during" and kind == "exec":
            self._during = self._build_watcher(fault)
        if (fault is not None and fault.when == "before") or self._hangs:
            await self._apply_fault(fault)
        if host.faults.disk_delay and kind not in ("channel", "exec", "sftp"):
            # requests are answered in the order in which they came
            async with self._in_order:
                await host.faults.wait_for_disk()
                result = await act()
        else:
            result = await act()
        if fault is not None and (fault.when == "after" or kind != "exec"):
            await self._apply_fault(fault)
        return result

    async def _apply_fault(self, fault: Fault | None) -> NoReturn:
        if fault is not None and fault.action == "cut" and self._connection is not None:
            self._connection.abort()
        self._hangs = True
        await self._lost.wait()
        raise asyncssh.ConnectionLost("the connection has ended")

    def count_bytes(self, *, received: int = 0, sent: int = 0) -> None:
        """Count bytes of content."""
        self.host.traffic.received += received
        self.host.traffic.sent += sent

    def session_requested(self) -> "Awaitable[asyncssh.SSHServerSession[bytes]]":
        """Open a channel."""
        return self.request("channel", "", self._open_session)

    async def _open_session(self) -> "asyncssh.SSHServerSession[bytes]":
        if self._channels == _SESSIONS:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_RESOURCE_SHORTAGE, "too many sessions")
        self._channels += 1
        self.host.traffic.channels += 1
        return _Session(self)

    def release_session(self) -> None:
        """Release one of the allowed sessions."""
        self._channels -= 1

    async def start_sftp(self, channel: "asyncssh.SSHServerChannel[bytes]") -> Sftp:
        """Start the SFTP subsystem."""

        async def open_session() -> Sftp:
            self.host.traffic.sftp_sessions += 1
            session = Sftp(
                channel, self.host.files, self, rf"C:\Users\{self.host.username}", get_limits(self.host.edition.openssh)
            )
            self._sftp.append(session)
            return session

        return await self.request("sftp", "", open_session)

    async def run(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        """Run a command; interactive shells are not supported."""
        command = process.command
        if command is None:
            process.exit(1)
            return
        host, job = self.host, Job()
        self.host.traffic.execs += 1
        host.traffic.commands.append(command)
        self.count_bytes(received=len(command))

        def take(writer: "asyncssh.SSHWriter[bytes]") -> Callable[[bytes], None]:
            def write(data: bytes) -> None:
                self.count_bytes(sent=len(data))
                writer.write(data)

            return write

        async def run_shell() -> int:
            if self._during is not None:
                host.watchers.add(self._during)
            typed = await process.stdin.read() if _PROMPT.search(command) else b""
            streams = Streams(Forward(take(process.stdout)), Forward(take(process.stderr)), typed)
            if host.shell == "powershell" and not _SAME_IN_POWERSHELL.fullmatch(command):
                process.stderr.write(b"This command line is not read by PowerShell as it is by cmd.\r\n")
                return 1
            shell = Shell(host, self._build_variables(), rf"C:\Users\{host.username}", streams, job)
            # bash takes a backslash for a sign of its own
            code = await job.start(shell.run(command.replace("\\", "") if host.shell == "bash" else command))
            return int(code != 0) if host.shell == "powershell" else int(code)

        self._jobs.add(job)
        try:
            code = await self.request("exec", command, run_shell)
        finally:
            # the shell's job object ends with it, and so does what it left behind
            job.end()
            self._jobs.discard(job)
            if self._during is not None:
                host.watchers.discard(self._during)
        process.exit(code & 0xFFFFFFFF)

    def _build_variables(self) -> BatchVariables:
        """Build the environment of a session: the host's variables and SSH_CONNECTION."""
        variables = self.host.build_variables()
        if self._connection is not None:
            client, own = (self._connection.get_extra_info(item) for item in ("peername", "sockname"))
            variables.set("SSH_CONNECTION", f"{client[0]} {client[1]} {self.host.own_address or own[0]} {own[1]}")
        return variables

    def _build_watcher(self, fault: Fault) -> Callable[[str], None]:
        """Build a watcher that applies the fault when the program that it names starts."""
        left = fault.program

        def observe_start(line: str) -> None:
            nonlocal left
            if isinstance(left, int):
                left -= 1
            if left == 0 or (isinstance(left, str) and left in line):
                left = -1
                self._hangs = True
                if fault.action == "cut" and self._connection is not None:
                    self._connection.abort()

        return observe_start


class _Session(asyncssh.SSHServerProcess[bytes]):
    """One channel: a command, or SFTP."""

    def __init__(self, connection: ServerConnection) -> None:
        super().__init__(connection.run, connection.start_sftp, 3, False)  # type: ignore[arg-type]
        self._owner = connection

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the session when the channel closes."""
        self._owner.release_session()
        super().connection_lost(exc)


class Simulator:
    """Simulated hosts on loopback addresses, each with a port of its own, for as long as the context lasts.

    `client_key` is the private key that every host lets in at first: its public key is the one in the file `KEYS`.
    """

    def __init__(self, client_key: asyncssh.SSHKey | None = None, host_key: asyncssh.SSHKey | None = None) -> None:
        """Without keys they are made; `host_key` is what hosts show of themselves."""
        self.client_key = client_key or asyncssh.generate_private_key("ssh-ed25519")
        self.hosts: list[Host] = []
        self.by_port: dict[int, Host] = {}
        self._host_key = host_key or asyncssh.generate_private_key("ssh-ed25519")
        self._options: dict[tuple[bytes, str], asyncssh.SSHServerConnectionOptions] = {}
        self._listeners: dict[int, asyncssh.SSHAcceptor] = {}
        self._host_keys: dict[int, asyncssh.SSHKey] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        for host in self.hosts:
            host.cut_power()
        for listener in self._listeners.values():
            listener.close()
        for host in self.hosts:
            await host.background.wait_until_idle()

    def create_connection(self) -> ServerConnection:
        """Create the SSH server of one connection to a host."""
        return ServerConnection(self)

    async def add_host(
        self,
        name: str | None = None,
        *,
        services: Mapping[str, Iterable[str]] = _SERVICES,
        edits: Iterable[Edit] = (),
        shell: Literal["cmd", "powershell", "bash"] = "cmd",
        username: str = "Administrator",
        time_scale: float = 0.01,
        address: str = "127.0.0.1",
        port: int = 0,
        edition: Edition = SERVER_2022,
    ) -> Host:
        """Create and boot a host with `services` (each with its dependencies) and `edits` of its registry.

        The edits are applied before the first boot. `time_scale` is the number of real seconds per second of the host.
        `address` is a loopback address; `port` 0 takes any free port. Raises OSError if the port is in use.
        """
        host = Host(
            name or f"WIN-{len(self.hosts) + 1:04}", shell=shell, username=username, time_scale=time_scale, edition=edition
        )
        host.address = address
        for service, depends in services.items():
            host.add_service(service, depends)
        host.edit(edits)
        host.put_keys(self.client_key.export_public_key())
        await host.boot()
        await self._listen(host, self._host_key, port)
        self.hosts.append(host)
        return host

    def format_host_key(self, host: Host) -> str:
        """Return the host's public key, as a line of `ssh_host_ed25519_key.pub`."""
        return self._host_keys[host.port].export_public_key().decode().strip()

    async def change_host_key(self, host: Host) -> None:
        """Replace the host key, as a reinstallation of the host does."""
        listener = self._listeners.pop(host.port)
        listener.close()
        await listener.wait_closed()
        await self._listen(host, asyncssh.generate_private_key("ssh-ed25519"), host.port)

    async def _listen(self, host: Host, key: asyncssh.SSHKey, port: int) -> None:
        options = self._options.get((key.public_data, host.edition.openssh))
        if options is None:
            options = await asyncssh.SSHServerConnectionOptions.construct(
                None,
                config=None,
                server_factory=self.create_connection,
                server_host_keys=[key],
                encoding=None,
                allow_scp=False,
                password_auth=False,
                kbdint_auth=False,
                server_version=f"OpenSSH_for_Windows_{host.edition.openssh}",
            )
            self._options[key.public_data, host.edition.openssh] = options
        listener = await asyncssh.listen(host.address, port, options=options)
        while port == 0 and listener.get_port() in self.by_port:
            # hosts are distinguished by their ports, and another address may have the same one free
            listener.close()
            listener = await asyncssh.listen(host.address, port, options=options)
        host.port = listener.get_port()
        self.by_port[host.port] = host
        self._listeners[host.port] = listener
        self._host_keys[host.port] = key
