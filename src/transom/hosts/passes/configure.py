"""One pass that makes a bare Windows host a worker, or updates one: read, send, change, start, read again."""

import secrets
from collections.abc import Awaitable, Callable

import msgspec

from transom.hosts.errors import ConnectionLost, HostError, NotConverged, ScriptFailed, ServiceDied
from transom.hosts.passes.base_pass import (
    EVERYBODY,
    Pass,
    PassResult,
    PassSettings,
    describe_differences,
    open_directory,
    remove_directory_without_ledger,
)
from transom.hosts.scripts.template import Script, render_script
from transom.hosts.ssh.directory import HostDirectory, format_windows_path
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.ssh.ssh_client import Access
from transom.hosts.steps.change import apply_plan, run_fetches
from transom.hosts.steps.delivery import Delivery, PassProgress, Report
from transom.hosts.steps.facts_parser import merge_states
from transom.hosts.steps.gather import gather, hash_foreign_files, run_output_scripts, stat_files
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.proxy.settings import Egress
from transom.windows import ledger
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import SERVICES, Queries
from transom.windows.nodes.fetch import build_curl_configurations
from transom.windows.parts.adopted import PEER, AdoptedState
from transom.windows.parts.plan_builder import When
from transom.windows.payload.worker import (
    DesiredWorker,
    Facts,
    WaitingService,
    build_desired,
    format_node_name,
    list_other_services,
    list_pending_scripts,
    list_probed_paths,
)
from transom.windows.planning import queries as questions
from transom.windows.planning.planner import Plan, build_desired_settings, plan

_NETWORK = rf"{SERVICES}\Tcpip\Parameters"
"""Where `Hostname` is the name that the host has since its boot (Microsoft: "TCP/IP and NBT configuration parameters")."""
_METADATA_NAME = "METADATA_NAME"
_ROUNDS = 3
"""Preparing Windows, installing, and one to spare for what the first reading could not know."""


class WorkerSpec(msgspec.Struct, frozen=True):
    """What a host is to become. `facts` may be asked for with what was read, before anything is made of it.

    That may raise HostError, which ends the pass with nothing sent.
    """

    directory: PayloadDirectory
    facts: Facts | Callable[[ObservedState], Awaitable[Facts]]
    egress: Egress = Egress()
    restarts: When = "now"
    """When services that run are restarted; what does not run yet is started at once."""
    fetch_anyway: bool = False
    """Whether the host also tries the readiness endpoints if no change was necessary."""
    taken: AdoptedState | None = None
    """What another operator left that had the host before."""
    name_script: str | None = None
    """The script that asks the metadata service for the host's name; it runs before `facts` are asked for."""


class ConfigureResult(PassResult, frozen=True):
    """The observations and changes of a pass.

    `waits` are missing services, and for what they wait. `reboot` is why the host must reboot before the next steps (empty:
    no reboot). `sent` are the bytes of files that were sent.
    """

    node_name: str = ""
    waits: tuple[WaitingService, ...] = ()
    reboot: str = ""
    sent: int = 0


async def configure_worker(
    access: Access,
    host_keys: HostKeys,
    settings: PassSettings,
    worker: WorkerSpec,
    *,
    report: Report = lambda _: None,
    dry_run: bool = False,
    admit: Callable[[Plan], Awaitable[bool]] = lambda _: EVERYBODY(),
) -> ConfigureResult:
    """Make the host the worker that it should be, over one connection; every trouble of the host is in the result.

    `admit` is asked before a change is carried out: where it says no, nothing is sent and nothing is changed.
    """
    report(PassProgress("connect"))
    work = _Configuration(settings, worker, report, admit, dry_run=dry_run)
    return await work.run(access, host_keys)


async def request_reboot(access: Access, host_keys: HostKeys, settings: PassSettings) -> None:
    """Order the host to boot; it goes down some seconds after this returns. Raises HostError."""
    async with open_directory(access, host_keys, settings) as directory:
        name = directory.generate_name()
        await directory.put_files(name, [Script("boot.cmd", render_script("boot.cmd", {}))])
        settings.permit()
        ended = await directory.transport.run(format_windows_path(name, "boot.cmd"))
        try:
            await directory.remove_subdirectory(name, ("boot.cmd",))
        except ConnectionLost:
            # it is on its way down as ordered; the next pass finds the directory
            if not ended.succeeded:
                raise
        if not ended.succeeded:
            raise ScriptFailed("Windows refused to boot; the user must be an administrator")


class _Configuration(Pass[ConfigureResult]):
    def __init__(
        self,
        settings: PassSettings,
        worker: WorkerSpec,
        report: Report,
        admit: Callable[[Plan], Awaitable[bool]],
        *,
        dry_run: bool,
    ) -> None:
        super().__init__(settings, ConfigureResult(), only_reads=dry_run)
        self._worker = worker
        self._report, self._admit, self._dry_run = report, admit, dry_run
        self._salt = secrets.token_bytes(16)
        self._asked = _build_first_queries(worker)
        self._facts = Facts()
        self._fetches = build_curl_configurations(worker.egress)
        self._found: dict[str, str] = {}

    async def _run_steps(self, directory: HostDirectory) -> None:
        self._report(PassProgress("read"))
        state = await self._observe_inputs(directory, _with_full_name(await gather(directory, self._asked)))
        self._update_result(before=state)
        for _ in range(_ROUNDS):
            wanted, planned, state = await self._compute_plan(directory, state)
            if planned.boot_pending:
                self._update_result(reboot="Windows requires a reboot to complete its preparation")
                return
            if not planned or self._dry_run:
                if self._worker.fetch_anyway and not planned and self._fetches:
                    self._update_result(fetched=await run_fetches(directory, self._fetches))
                await remove_directory_without_ledger(directory, state)
                return
            if not await self._admit(planned):
                self._update_result(waiting=True)
                await remove_directory_without_ledger(directory, state)
                return
            state, more = await self._apply_change(directory, wanted, planned, state)
            if not more:
                await remove_directory_without_ledger(directory, state)
                return

    async def _observe_inputs(self, directory: HostDirectory, state: ObservedState) -> ObservedState:
        """Return the state with all inputs of a plan, and set the facts for it."""
        recorded = ledger.read(state.registry).installed
        unasked = questions.merge_queries(self._asked, Queries(services=tuple(recorded.services)))
        state = await self._gather_missing(directory, state, unasked)
        state = await self._with_metadata_name(directory, state)
        self._facts = await self._resolve_facts(state)
        self._update_result(node_name=format_node_name(self._facts, state.computer_name))
        payload = self._worker.directory.payload
        wanted = list_pending_scripts(payload, self._facts, recorded, state.boot)
        if wanted and not self._dry_run:
            files = {v.name: (v.script, self._worker.directory.scripts[v.name]) for v in payload.variables if v.name in wanted}
            printed = await run_output_scripts(directory, files)
            state = msgspec.structs.replace(state, outputs=printed.texts, complaints=printed.complaints)
        return await self._probe_files(directory, state)

    async def _with_metadata_name(self, directory: HostDirectory, state: ObservedState) -> ObservedState:
        script = self._worker.name_script
        if script is None or self._dry_run:
            return state
        printed = await run_output_scripts(directory, {_METADATA_NAME: (script, render_script(script, {}))})
        return msgspec.structs.replace(
            state,
            metadata_name=printed.texts.get(_METADATA_NAME, ""),
            metadata_complaint=printed.complaints.get(_METADATA_NAME, ""),
        )

    async def _resolve_facts(self, state: ObservedState) -> Facts:
        facts = self._worker.facts
        known = facts if isinstance(facts, Facts) else await facts(state)
        # never the name that SSH was asked for by: kubelets take addresses alone (`--node-ip`)
        return known if known.node_ip else msgspec.structs.replace(known, node_ip=state.reached)

    async def _gather_missing(self, directory: HostDirectory, state: ObservedState, queries: Queries) -> ObservedState:
        if queries == self._asked:
            return state
        widened = _with_full_name(
            merge_states(state, await gather(directory, questions.subtract_queries(queries, self._asked)))
        )
        self._asked = queries
        known = {"files": state.files, "directories": state.directories, "found": state.found}
        return _with_script_outputs(msgspec.structs.replace(widened, **known), state)

    async def _probe_files(self, directory: HostDirectory, state: ObservedState) -> ObservedState:
        """Return the state with the files and directories that a plan needs."""
        recorded = ledger.read(state.registry).installed
        files, directories = list_probed_paths(self._worker.directory.payload, self._facts, recorded)
        state = await stat_files(directory.transport, state, files, directories)
        if not self._facts.takes or self._dry_run:
            return state
        self._found |= await hash_foreign_files(directory.transport, state, self._found)
        return msgspec.structs.replace(state, found=self._found)

    def _build_desired(self, state: ObservedState) -> DesiredWorker:
        payload = self._worker.directory
        return build_desired(payload.payload, payload.artifacts, self._facts, self._worker.egress, state)

    def _build_plan(self, wanted: DesiredWorker, state: ObservedState) -> Plan:
        when, taken = self._worker.restarts, self._worker.taken
        return plan(wanted.state, state, self._salt, when, taken=taken, manager=self._settings.manager)

    async def _compute_plan(self, directory: HostDirectory, state: ObservedState) -> tuple[DesiredWorker, Plan, ObservedState]:
        wanted = self._build_desired(state)
        planned = self._build_plan(wanted, state)
        if wider := questions.build_follow_up_queries(self._asked, planned):
            state = await self._gather_missing(directory, state, wider)
            wanted = self._build_desired(state)
            planned = self._build_plan(wanted, state)
        self._update_result(waits=wanted.waiting, plan=_merge_plans(self.result.plan, planned))
        return wanted, planned, state

    async def _apply_change(
        self, directory: HostDirectory, wanted: DesiredWorker, planned: Plan, state: ObservedState
    ) -> tuple[ObservedState, bool]:
        """Apply a plan; return the state after it and whether another round is needed."""
        delivery = Delivery(directory, self._worker.directory, wanted.contents, self._report)
        try:
            await delivery.deliver_files(planned.install.place)
        finally:
            self._update_result(sent=self.result.sent + delivery.sent)
        self._report(PassProgress("prepare" if planned.prepare else "change"))
        self._update_result(begun=True)
        done = await apply_plan(
            directory,
            planned,
            state,
            self._asked,
            patience=self._settings.patience.with_payload(self._worker.directory.payload),
            # what Windows is prepared for does not run yet
            fetches=() if planned.prepare else self._fetches,
            permit=self._settings.permit,
        )
        after = await self._probe_files(directory, _with_full_name(_with_script_outputs(done.after, state)))
        restarted = (*self.result.restarted, *done.restarted)
        self._update_result(after=after, restarted=restarted, error=done.error, fetched=done.fetched)
        if done.error is not None:
            return after, False
        if done.boot:
            self._update_result(reboot=_format_reboot_reason(done.boot))
            return after, False
        if planned.prepare is not None:
            return after, True
        if rest := self._build_plan(self._build_desired(after), after):
            self._update_result(error=_build_unfinished_error(rest))
        return after, False


def _build_first_queries(worker: WorkerSpec) -> Queries:
    """Build the first queries: every service of the payload, and what the egress settings need."""
    services = worker.directory.payload.services
    proxied = (*(s.name for s in services if s.egress), *list_other_services(worker.directory.payload, worker.egress))
    windows = msgspec.structs.replace(worker.egress.windows, services=proxied)
    state = build_desired_settings(msgspec.structs.replace(worker.egress, windows=windows))
    queries = questions.build_initial_queries(state)
    names = tuple(service.name for service in services)
    queries = questions.merge_queries(queries, Queries(services=names, boot=True, keys=(_NETWORK,)))
    return queries if worker.taken is None else questions.merge_queries(queries, Queries(services=(PEER,), environment=True))


def _with_full_name(state: ObservedState) -> ObservedState:
    """Return the state with the host's full name: NetBIOS names end after 15 letters (Microsoft: "NetBIOS names")."""
    name, domain = (state.registry.find_value(_NETWORK, value) for value in ("Hostname", "Domain"))
    if domain and domain.decode_text():
        state = msgspec.structs.replace(state, dns_domain=domain.decode_text())
    return msgspec.structs.replace(state, computer_name=name.decode_text()) if name and name.decode_text() else state


def _with_script_outputs(state: ObservedState, former: ObservedState) -> ObservedState:
    """Return the state with the script outputs of an earlier one."""
    return msgspec.structs.replace(
        state,
        outputs=former.outputs,
        complaints=former.complaints,
        metadata_name=former.metadata_name,
        metadata_complaint=former.metadata_complaint,
    )


def _merge_plans(first: Plan | None, second: Plan) -> Plan:
    """Merge the plans of a pass of two rounds, for people: the steps of both."""
    if first is None or not first:
        return second
    return msgspec.structs.replace(
        second if second else first,
        steps=(*first.steps, *second.steps),
        faults=second.faults,
        disabled=second.disabled,
        profile_fault=second.profile_fault,
    )


def _format_reboot_reason(words: tuple[str, ...]) -> str:
    reasons = {"containers": "the feature Containers was installed", "name": "the host got its node's name"}
    return " and ".join(reasons.get(word, word) for word in words)


def _build_unfinished_error(remaining: Plan) -> HostError:
    if remaining.start and not remaining.install and not remaining.edits:
        return ServiceDied(f"{', '.join(remaining.start)} started, and does not run any more; look at its log on the host")
    return NotConverged(describe_differences(remaining))
