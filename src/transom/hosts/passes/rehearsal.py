"""The last part of `transom verify host --change`: a worker of one service goes through its whole life on a machine."""

import asyncio
import hashlib
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from transom.common.check_results import CheckResult, Claim, Told, Verdict
from transom.common.clean_up import run_to_end
from transom.hosts.errors import HostError, PutBack, ScriptFailed
from transom.hosts.passes.base_pass import PassSettings, describe_differences, open_directory, query_host
from transom.hosts.passes.configure import ConfigureResult, WorkerSpec, configure_worker
from transom.hosts.passes.removal import RemovalResult, restore_host_state
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.ssh.ssh_client import Access
from transom.hosts.steps.change_checks import NAME, OWN
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.proxy.settings import Egress
from transom.windows import ledger
from transom.windows.host.host_state import ObservedState, ServiceState
from transom.windows.host.ledger_entries import LedgerError
from transom.windows.host.queries import Queries
from transom.windows.parts.certificates import CA, ROOT, get_store_path
from transom.windows.payload.payload import Payload, PayloadFile, PayloadService
from transom.windows.payload.worker import Artifact, Facts
from transom.windows.planning.planner import Plan
from transom.windows.registry.names import is_same, is_within

_R = TypeVar("_R")

_LARGEST = 4 * 2**20
"""Bytes of the program that is the service."""
GIVING_BACK_SECONDS = 60.0
"""Seconds in which it is tried to give a machine back whose last pass was cut off."""
_BETWEEN = 3.0
"""Seconds between two tries of that: the restarts of that pass may take their time."""
_NO_PROXY = "transom-verify.invalid"


class Rehearsal(msgspec.Struct, frozen=True):
    """The inputs of a rehearsal: a certificate (DER) without a known key, and the settings that the service gets.

    `program` is an own-process service that exists on the machine, with the end of its command line. Locator.exe does
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
        "a change of NO_PROXY restarts the service, even without the connection",
        "docs/architecture.md",
        "changes of the proxy do not reach services: `RestartsFailed`",
    ),
    Claim(
        "put-back",
        "a version whose service does not run is taken back, and the former one runs",
        "docs/node-upgrades.md",
        "a broken version leaves a node without its kubelet",
    ),
    Claim("removed", "a removal deletes what was created", "docs/node-removal.md", "`RemovalIncomplete`"),
    Claim(
        "as-before",
        "services, machine environment, trusted certificates and ledger are as before",
        "docs/architecture.md",
        "something of Transom's stays",
    ),
)


async def run_rehearsal(
    access: Access, host_keys: HostKeys, settings: PassSettings, rehearsal: Rehearsal, use_reason: str, report: Told
) -> tuple[CheckResult, ...]:
    """Run the life of a worker, step by step, and clean up the machine at the end. Raises HostError.

    On a machine in use (`use_reason` is the reason), nothing is changed.
    """
    with tempfile.TemporaryDirectory() as place:
        work = _RehearsalRun(access, host_keys, settings, rehearsal, report, Path(place))
        if why := use_reason or await work.find_missing_programs():
            for claim in STEPS:
                work.record_step(claim, "not applicable", why, 0)
            return tuple(work.results)
        try:
            await work.run()
        except (asyncio.CancelledError, HostError):
            # of two troubles the first is raised
            try:
                await undo_rehearsal(access, host_keys, settings)
            except HostError as error:
                work.record_step(STEPS[-2], "fail", str(error), 0)
            raise
    return tuple(work.results)


async def undo_rehearsal(access: Access, host_keys: HostKeys, settings: PassSettings) -> None:
    """Undo what a rehearsal has done that was cut off, also when this is called off. Raises HostError.

    Its restarts may still be running: it retries for `GIVING_BACK_SECONDS`.
    """
    last: HostError | None = None

    async def undo() -> None:
        nonlocal last
        while True:
            last = (await restore_host_state(access, host_keys, settings)).error
            if last is None:
                return
            await asyncio.sleep(_BETWEEN)

    try:
        await run_to_end(undo(), GIVING_BACK_SECONDS)
    except TimeoutError:
        why = f" ({last})" if last is not None else ""
        raise ScriptFailed(
            f"the machine was not restored within {GIVING_BACK_SECONDS:g} s{why}: service {NAME} may still exist. "
            "`transom verify host --change` begins with its removal"
        ) from None


def is_unfinished_rehearsal(state: ObservedState) -> bool:
    """Return True if all entries of the ledger are from a rehearsal: it was killed before it restored the host."""
    try:
        recorded = ledger.read(state.registry)
    except LedgerError:
        return False
    services = {*recorded.installed.services, *recorded.environment.services}
    owned = (*recorded.installed.files, *recorded.installed.directories)
    own = all(is_same(name, NAME) for name in services) and all(is_within(path, OWN) for path in owned)
    return bool(recorded.installed) and own and not recorded.environment.machine


class _RehearsalRun:
    def __init__(
        self, access: Access, host_keys: HostKeys, settings: PassSettings, rehearsal: Rehearsal, report: Told, place: Path
    ) -> None:
        self._host = (access, host_keys, settings)
        self._rehearsal, self._told, self._place = rehearsal, report, place
        self._program = self._no_service = b""
        self.results: list[CheckResult] = []
        windows = msgspec.structs.replace(rehearsal.egress.windows, services=(NAME,))
        self._egress = msgspec.structs.replace(rehearsal.egress, windows=windows)

    def record_step(self, claim: Claim, verdict: Verdict, seen: str, seconds: float) -> None:
        """One more is known."""
        self.results.append(CheckResult.from_claim(claim, verdict, seen, seconds))
        self._told(self.results[-1])

    async def find_missing_programs(self) -> str:
        """Read the required programs; describe those that are missing (empty: none). Raises HostError."""
        async with open_directory(*self._host, only_reads=True, doing="reading a program") as directory:
            paths = (self._rehearsal.program, r"C:\Windows\System32\hostname.exe")
            contents = [await directory.transport.read(path.replace("\\", "/"), _LARGEST) for path in paths]
        self._program, self._no_service = (content or b"" for content in contents)
        return "" if all(contents) else f"{' or '.join(paths)} does not exist"

    async def run(self) -> None:
        """Every step. Raises HostError."""
        before = await self._query_state()
        later = msgspec.structs.replace(self._egress, no_proxy=",".join(filter(None, (self._egress.no_proxy, _NO_PROXY))))
        configured, unchanged, changed, put_back, removed, as_before = STEPS
        if await self._run_step(configured, lambda: self._configure("1.0.0", self._egress), _describe_failure):
            await self._run_step(unchanged, lambda: self._configure("1.0.0", self._egress), _check_unchanged)
            await self._run_step(changed, lambda: self._configure("1.0.0", later), _check_restarted)
            await self._run_step(put_back, lambda: self._configure("1.0.1", later, self._no_service), _check_reversed)
        else:
            for claim in (unchanged, changed, put_back):
                self.record_step(claim, "not applicable", "not tried: no service exists", 0)
        await self._run_step(removed, lambda: restore_host_state(*self._host), _check_removed)
        await self._run_step(as_before, self._query_state, lambda after: _describe_difference(before, after))

    async def _run_step(self, claim: Claim, act: Callable[[], Awaitable[_R]], judge: Callable[[_R], str]) -> bool:
        started_at = time.monotonic()
        wrong = judge(await act())
        self.record_step(claim, "fail" if wrong else "pass", wrong or "so", time.monotonic() - started_at)
        return not wrong

    async def _query_state(self) -> ObservedState:
        stores = (get_store_path(ROOT), get_store_path(CA))
        return await query_host(*self._host, Queries(services=(NAME,), environment=True, stores=stores))

    async def _configure(self, version: str, egress: Egress, program: bytes = b"") -> ConfigureResult:
        worker = WorkerSpec(self._build_payload(version, program or self._program), Facts(), egress)
        return await configure_worker(*self._host, worker)

    def _build_payload(self, version: str, program: bytes) -> PayloadDirectory:
        """Build a payload of one service, without a preparation of Windows."""
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


def _format_error(error: HostError | None) -> str:
    return "" if error is None else f"{type(error).__name__}: {error}"


def _describe_service_fault(state: ObservedState | None) -> str:
    """Describe the service's fault (empty: none)."""
    service = state.find_service(NAME) if state is not None else None
    return "" if service is not None and service.state == ServiceState.RUNNING else "the service does not run"


def _describe_failure(made: ConfigureResult) -> str:
    return _format_error(made.error) or _describe_service_fault(made.after)


def _check_unchanged(made: ConfigureResult) -> str:
    return _format_error(made.error) or describe_differences(made.plan or Plan()) * bool(made.plan)


def _check_restarted(made: ConfigureResult) -> str:
    return (
        _format_error(made.error)
        or _describe_service_fault(made.after)
        or ("" if NAME in made.restarted else "the service was not restarted")
    )


def _check_reversed(made: ConfigureResult) -> str:
    if isinstance(made.error, PutBack):
        return _describe_service_fault(made.after)
    return _format_error(made.error) or "a version whose program is not a service is reported as running"


def _check_removed(made: RemovalResult) -> str:
    return _format_error(made.error) or "; ".join(made.remains)


def _describe_difference(before: ObservedState, after: ObservedState) -> str:
    """Describe the registry keys that differ from before (empty: none)."""
    keys = {key.path: key for key in before.registry}
    now = {key.path: key for key in after.registry}
    changed = [path for path in keys | now if keys.get(path) != now.get(path)]
    return f"not as before: {', '.join(changed)}" if changed else ""
