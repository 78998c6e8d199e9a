"""The last part of `transom verify host --change`: a worker of one service goes through its whole life on a machine."""

import asyncio
import hashlib
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from transom.checked import Checked, Claim, Told, Verdict
from transom.hosts.errors import HostError, PutBack
from transom.hosts.passes import PassSettings, differences, look, opened
from transom.hosts.passes.configure import Configured, Worker, configure
from transom.hosts.passes.removal import Removed, remove
from transom.hosts.ssh import Access
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.hosts.steps.trials import NAME, OWN
from transom.proxy.settings import Egress
from transom.windows.host import ObservedState, ServiceState
from transom.windows.host.queries import Queries
from transom.windows.parts.certificates import CA, ROOT, store
from transom.windows.payload import Payload, PayloadFile, PayloadService
from transom.windows.payload.worker import Artifact, Facts
from transom.windows.planning import Plan

_R = TypeVar("_R")

_LARGEST = 4 * 2**20
"""Bytes of the program that is the service."""
_AGAIN, _BETWEEN = 20, 3.0
"""How often a machine is given back whose last pass was cut off, and the seconds between."""
_NO_PROXY = "transom-verify.invalid"


class Rehearsal(msgspec.Struct, frozen=True):
    """What is tried on a machine: a certificate (DER) whose key nobody has, and the settings that the service gets.

    `program` is a service of its own process that is on the machine, and what its command line ends with. Locator.exe does
    nothing since Windows Vista (Microsoft Learn, "Remote Procedure Call (RPC) Locator" service) and is on every server.
    """

    authority: bytes
    egress: Egress
    program: str = r"C:\Windows\System32\Locator.exe"
    arguments: str = ""


STEPS = (
    Claim(
        "configured",
        "a payload's program is sent, its service made and started, with the proxy in its environment",
        "docs/windows-workers.md",
        "no machine becomes a worker",
    ),
    Claim("unchanged", "a second pass finds nothing to do", "docs/architecture.md", "each pass restarts services"),
    Claim(
        "changed",
        "another NO_PROXY restarts the service, by what goes on without the connection",
        "docs/architecture.md",
        "changes of the proxy do not reach services: `RestartsFailed`",
    ),
    Claim(
        "put-back",
        "a version whose service does not run is taken back, and the former one runs",
        "docs/windows-nodes.md",
        "a broken version leaves a node without its kubelet",
    ),
    Claim("removed", "a removal takes away what was made", "docs/windows-nodes.md", "`RemovalIncomplete`"),
    Claim(
        "as-before",
        "services, machine environment, trusted certificates and ledger are as before",
        "docs/architecture.md",
        "something of Transom's stays",
    ),
)


async def rehearse(
    access: Access, host_keys: HostKeys, settings: PassSettings, rehearsal: Rehearsal, used: str, told: Told
) -> tuple[Checked, ...]:
    """The life of a worker, step by step. Raises HostError. On a machine in use (`used` says why) nothing is done.

    However it ends, the machine is given back.
    """
    with tempfile.TemporaryDirectory() as place:
        work = _Rehearsal(access, host_keys, settings, rehearsal, told, Path(place))
        if why := used or await work.missing():
            for claim in STEPS:
                work.tell(claim, "not applicable", why, 0)
            return tuple(work.found)
        try:
            await work.run()
        except (asyncio.CancelledError, HostError):
            await work.give_back()
            raise
    return tuple(work.found)


class _Rehearsal:
    def __init__(
        self, access: Access, host_keys: HostKeys, settings: PassSettings, rehearsal: Rehearsal, told: Told, place: Path
    ) -> None:
        self._host = (access, host_keys, settings)
        self._rehearsal, self._told, self._place = rehearsal, told, place
        self._program = self._no_service = b""
        self.found: list[Checked] = []
        windows = msgspec.structs.replace(rehearsal.egress.windows, services=(NAME,))
        self._egress = msgspec.structs.replace(rehearsal.egress, windows=windows)

    def tell(self, claim: Claim, verdict: Verdict, seen: str, seconds: float) -> None:
        """One more is known."""
        self.found.append(Checked.of(claim, verdict, seen, seconds))
        self._told(self.found[-1])

    async def missing(self) -> str:
        """What of the machine is needed, and not there; the programs are read. Raises HostError."""
        async with opened(*self._host, only_reads=True, doing="reading a program") as directory:
            paths = (self._rehearsal.program, r"C:\Windows\System32\hostname.exe")
            found = [await directory.transport.read(path.replace("\\", "/"), _LARGEST) for path in paths]
        self._program, self._no_service = (content or b"" for content in found)
        return "" if all(found) else f"{' or '.join(paths)} is not there"

    async def run(self) -> None:
        """Every step. Raises HostError."""
        before = await self._look()
        later = msgspec.structs.replace(self._egress, no_proxy=",".join(filter(None, (self._egress.no_proxy, _NO_PROXY))))
        configured, unchanged, changed, put_back, removed, as_before = STEPS
        if await self._step(configured, lambda: self._configure("1.0.0", self._egress), _runs):
            await self._step(unchanged, lambda: self._configure("1.0.0", self._egress), _nothing)
            await self._step(changed, lambda: self._configure("1.0.0", later), _restarted)
            await self._step(put_back, lambda: self._configure("1.0.1", later, self._no_service), _taken_back)
        else:
            for claim in (unchanged, changed, put_back):
                self.tell(claim, "not applicable", "not tried: there is no service", 0)
        await self._step(removed, lambda: remove(*self._host), _removed)
        await self._step(as_before, self._look, lambda after: _difference(before, after))

    async def _step(self, claim: Claim, act: Callable[[], Awaitable[_R]], judge: Callable[[_R], str]) -> bool:
        begun = time.monotonic()
        wrong = judge(await act())
        self.tell(claim, "fail" if wrong else "pass", wrong or "so", time.monotonic() - begun)
        return not wrong

    async def _look(self) -> ObservedState:
        stores = (store(ROOT), store(CA))
        return await look(*self._host, Queries(services=(NAME,), environment=True, stores=stores))

    async def _configure(self, version: str, egress: Egress, program: bytes = b"") -> Configured:
        worker = Worker(self._payload(version, program or self._program), Facts(), egress)
        return await configure(*self._host, worker)

    def _payload(self, version: str, program: bytes) -> PayloadDirectory:
        """A payload of one service. It prepares nothing of Windows."""
        file = self._place / version
        file.write_bytes(program)
        path, digest = rf"{OWN}\service.exe", hashlib.sha256(program).hexdigest()
        command = f"{path} {self._rehearsal.arguments}".rstrip()
        payload = Payload(
            version=version,
            kubernetes="v1.0.0",
            containers_feature=False,
            files=(PayloadFile(path=path, source=file.name, services=(NAME,)),),
            services=(PayloadService(name=NAME, command=command, egress=True),),
        )
        return PayloadDirectory(self._place, payload, {file.name: Artifact(digest, len(program))}, {}, {digest: file})

    async def give_back(self) -> None:
        """Undo what a pass that was cut off has done; its restarts may still be going on. Raises HostError."""
        for _ in range(_AGAIN):
            if (await remove(*self._host)).error is None:
                return
            await asyncio.sleep(_BETWEEN)
        if (error := (await remove(*self._host)).error) is not None:
            raise error


def _trouble(error: HostError | None) -> str:
    return "" if error is None else f"{type(error).__name__}: {error}"


def _state(state: ObservedState | None) -> str:
    """What is wrong with the service."""
    service = state.service(NAME) if state is not None else None
    return "" if service is not None and service.state == ServiceState.RUNNING else "the service does not run"


def _runs(made: Configured) -> str:
    return _trouble(made.error) or _state(made.after)


def _nothing(made: Configured) -> str:
    return _trouble(made.error) or differences(made.plan or Plan()) * bool(made.plan)


def _restarted(made: Configured) -> str:
    return _trouble(made.error) or _state(made.after) or ("" if NAME in made.restarted else "the service was not restarted")


def _taken_back(made: Configured) -> str:
    if isinstance(made.error, PutBack):
        return _state(made.after)
    return _trouble(made.error) or "a version whose program is no service is said to run"


def _removed(made: Removed) -> str:
    return _trouble(made.error) or "; ".join(made.remains)


def _difference(before: ObservedState, after: ObservedState) -> str:
    """The keys of the registry that are not as before."""
    keys = {key.path: key for key in before.registry}
    now = {key.path: key for key in after.registry}
    changed = [path for path in keys | now if keys.get(path) != now.get(path)]
    return f"not as before: {', '.join(changed)}" if changed else ""
