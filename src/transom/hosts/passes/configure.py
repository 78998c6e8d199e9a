"""One pass that makes a bare Windows host a worker, or brings one up to date: read, send, change, start, read again."""

import secrets
from collections.abc import Awaitable, Callable

import msgspec

from transom.hosts.errors import ConnectionLost, HostError, NotConverged, ScriptFailed, ServiceDied
from transom.hosts.passes import EVERYBODY, Pass, PassResult, PassSettings, differences, leave, opened
from transom.hosts.scripts.template import Script, render
from transom.hosts.ssh import Access
from transom.hosts.ssh.directory import Directory, local
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.steps.change import carry_out, fetch
from transom.hosts.steps.delivery import Delivery, DeliveryProgress, Report
from transom.hosts.steps.facts_parser import merged
from transom.hosts.steps.gather import found_files, gather, outputs, probed
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.proxy.settings import Egress
from transom.windows import ledger
from transom.windows.host import ObservedState
from transom.windows.host.queries import SERVICES, Queries
from transom.windows.nodes.fetch import configurations
from transom.windows.parts.adopted import PEER, Adopted
from transom.windows.parts.plan_builder import When
from transom.windows.payload.worker import Desired, Facts, Waiting, desired, node_name, others, probed_paths, scripts
from transom.windows.planning import Plan, desired_settings, plan
from transom.windows.planning import queries as questions

_NETWORK = rf"{SERVICES}\Tcpip\Parameters"
"""Where `Hostname` is the name that the host has since its boot (Microsoft: "TCP/IP and NBT configuration parameters")."""
_ROUNDS = 3
"""Preparing Windows, installing, and one to spare for what the first reading could not know."""


class Worker(msgspec.Struct, frozen=True):
    """What a host is to become. `facts` may be asked for with what was read, before anything is made of it.

    That may raise HostError, which ends the pass with nothing sent.
    """

    directory: PayloadDirectory
    facts: Facts | Callable[[ObservedState], Awaitable[Facts]]
    egress: Egress = Egress()
    restarts: When = "now"
    """When services that run are restarted; what does not run yet is started at once."""
    fetch_anyway: bool = False
    """Whether the host tries the readiness endpoints also where nothing had to be changed."""
    taken: Adopted | None = None
    """What another operator left that had the host before."""


class Configured(PassResult, frozen=True):
    """What a pass found and did.

    `waits` are services that are not there yet, and for what they wait. `reboot` says what the host has to boot for before it
    goes on (empty: nothing). `sent` are the bytes of files that were sent.
    """

    node_name: str = ""
    waits: tuple[Waiting, ...] = ()
    reboot: str = ""
    sent: int = 0


async def configure(
    access: Access,
    host_keys: HostKeys,
    settings: PassSettings,
    worker: Worker,
    *,
    report: Report = lambda _: None,
    dry_run: bool = False,
    admit: Callable[[Plan], Awaitable[bool]] = lambda _: EVERYBODY(),
) -> Configured:
    """Make the host the worker that it should be, over one connection; every trouble of the host is in the result.

    `admit` is asked before a change is carried out: where it says no, nothing is sent and nothing is changed.
    """
    report(DeliveryProgress("connect"))
    work = _Configuration(settings, worker, report, admit, dry_run=dry_run)
    return await work.run(access, host_keys, only_reads=dry_run)


async def reboot(access: Access, host_keys: HostKeys, settings: PassSettings) -> None:
    """Order the host to boot; it goes down some seconds after this returns. Raises HostError."""
    async with opened(access, host_keys, settings) as directory:
        name = directory.new_name()
        await directory.put(name, [Script("boot.cmd", render("boot.cmd", {}))])
        settings.permit()
        ended = await directory.transport.run(local(name, "boot.cmd"))
        try:
            await directory.remove(name, ("boot.cmd",))
        except ConnectionLost:
            # it is on its way down as ordered; the next pass finds the directory
            if not ended.succeeded:
                raise
        if not ended.succeeded:
            raise ScriptFailed("Windows refused to boot; the user must be an administrator")


class _Configuration(Pass[Configured]):
    def __init__(
        self, settings: PassSettings, worker: Worker, report: Report, admit: Callable[[Plan], Awaitable[bool]], *, dry_run: bool
    ) -> None:
        super().__init__(settings, Configured())
        self._worker = worker
        self._report, self._admit, self._dry_run = report, admit, dry_run
        self._salt = secrets.token_bytes(16)
        self._asked = _first(worker)
        self._facts = Facts()
        self._fetches = configurations(worker.egress)
        self._found: dict[str, str] = {}

    async def _steps(self, directory: Directory) -> None:
        self._report(DeliveryProgress("read"))
        state = await self._known(directory, _named(await gather(directory, self._asked)))
        self._note(before=state)
        for _ in range(_ROUNDS):
            wanted, planned, state = await self._plan(directory, state)
            if planned.boot_pending:
                self._note(reboot="Windows has to boot to complete its preparation")
                return
            if not planned or self._dry_run:
                if self._worker.fetch_anyway and not planned and self._fetches:
                    self._note(fetched=await fetch(directory, self._fetches))
                await leave(directory, state)
                return
            if not await self._admit(planned):
                self._note(waiting=True)
                await leave(directory, state)
                return
            state, more = await self._change(directory, wanted, planned, state)
            if not more:
                await leave(directory, state)
                return

    async def _known(self, directory: Directory, state: ObservedState) -> ObservedState:
        """The state with all that a plan is made from; what is to be done is known then, too."""
        recorded = ledger.read(state.registry).installed
        unasked = questions.combined(self._asked, Queries(services=tuple(recorded.services)))
        state = await self._widened(directory, state, unasked)
        self._facts = await self._known_facts(state)
        self._note(node_name=node_name(self._facts, state.computer_name))
        payload = self._worker.directory.payload
        wanted = scripts(payload, self._facts, recorded, state.boot)
        if wanted and not self._dry_run:
            files = {v.name: (v.script, self._worker.directory.scripts[v.name]) for v in payload.variables if v.name in wanted}
            printed = await outputs(directory, files)
            state = msgspec.structs.replace(state, outputs=printed.texts, complaints=printed.complaints)
        return await self._probed(directory, state)

    async def _known_facts(self, state: ObservedState) -> Facts:
        facts = self._worker.facts
        known = facts if isinstance(facts, Facts) else await facts(state)
        # never the name that SSH was asked for by: kubelets take addresses alone (`--node-ip`)
        return known if known.node_ip else msgspec.structs.replace(known, node_ip=state.reached)

    async def _widened(self, directory: Directory, state: ObservedState, asked: Queries) -> ObservedState:
        if asked == self._asked:
            return state
        found = _named(merged(state, await gather(directory, questions.beyond(asked, self._asked))))
        self._asked = asked
        known = {"files": state.files, "directories": state.directories, "found": state.found}
        return _with_scripts(msgspec.structs.replace(found, **known), state)

    async def _probed(self, directory: Directory, state: ObservedState) -> ObservedState:
        """The state with the files and directories that matter."""
        recorded = ledger.read(state.registry).installed
        files, directories = probed_paths(self._worker.directory.payload, self._facts, recorded)
        state = await probed(directory.transport, state, files, directories)
        if not self._facts.takes or self._dry_run:
            return state
        self._found |= await found_files(directory.transport, state, self._found)
        return msgspec.structs.replace(state, found=self._found)

    def _desired(self, state: ObservedState) -> Desired:
        payload = self._worker.directory
        return desired(payload.payload, payload.artifacts, self._facts, self._worker.egress, state)

    def _planned(self, wanted: Desired, state: ObservedState) -> Plan:
        when, taken = self._worker.restarts, self._worker.taken
        return plan(wanted.state, state, self._salt, when, taken=taken, manager=self._settings.manager)

    async def _plan(self, directory: Directory, state: ObservedState) -> tuple[Desired, Plan, ObservedState]:
        wanted = self._desired(state)
        planned = self._planned(wanted, state)
        if wider := questions.more(self._asked, planned):
            state = await self._widened(directory, state, wider)
            wanted = self._desired(state)
            planned = self._planned(wanted, state)
        self._note(waits=wanted.waiting, plan=_joined(self.result.plan, planned))
        return wanted, planned, state

    async def _change(
        self, directory: Directory, wanted: Desired, planned: Plan, state: ObservedState
    ) -> tuple[ObservedState, bool]:
        """The state after a plan was carried out, and whether there is another round to make."""
        delivery = Delivery(directory, self._worker.directory, wanted.contents, self._report)
        try:
            await delivery.deliver(planned.install.place)
        finally:
            self._note(sent=self.result.sent + delivery.sent)
        self._report(DeliveryProgress("prepare" if planned.prepare else "change"))
        self._note(begun=True)
        done = await carry_out(
            directory,
            planned,
            state,
            self._asked,
            patience=self._settings.patience,
            # what Windows is prepared for does not run yet
            fetches=() if planned.prepare else self._fetches,
            permit=self._settings.permit,
        )
        after = await self._probed(directory, _named(_with_scripts(done.after, state)))
        restarted = (*self.result.restarted, *done.restarted)
        self._note(after=after, restarted=restarted, error=done.error, fetched=done.fetched)
        if done.error is not None:
            return after, False
        if done.boot:
            self._note(reboot=_boot_reason(done.boot))
            return after, False
        if planned.prepare is not None:
            return after, True
        if rest := self._planned(self._desired(after), after):
            self._note(error=_unfinished(rest))
        return after, False


def _first(worker: Worker) -> Queries:
    """What is asked at first: every service of the payload, and what the egress settings need."""
    services = worker.directory.payload.services
    proxied = (*(s.name for s in services if s.egress), *others(worker.directory.payload, worker.egress))
    windows = msgspec.structs.replace(worker.egress.windows, services=proxied)
    state = desired_settings(msgspec.structs.replace(worker.egress, windows=windows))
    asked = questions.first(state)
    names = tuple(service.name for service in services)
    asked = questions.combined(asked, Queries(services=names, boot=True, keys=(_NETWORK,)))
    return asked if worker.taken is None else questions.combined(asked, Queries(services=(PEER,), environment=True))


def _named(state: ObservedState) -> ObservedState:
    """The state with the host's whole name: the other one ends after 15 letters (Microsoft: "NetBIOS names")."""
    value = state.registry.value(_NETWORK, "Hostname")
    return msgspec.structs.replace(state, computer_name=value.text()) if value and value.text() else state


def _with_scripts(state: ObservedState, asked: ObservedState) -> ObservedState:
    """The state with what the scripts said when they were asked."""
    return msgspec.structs.replace(state, outputs=asked.outputs, complaints=asked.complaints)


def _joined(first: Plan | None, second: Plan) -> Plan:
    """The plan of a pass of two rounds, for people: the steps of both."""
    if first is None or not first:
        return second
    return msgspec.structs.replace(second if second else first, steps=(*first.steps, *second.steps), faults=second.faults)


def _boot_reason(words: tuple[str, ...]) -> str:
    reasons = {"containers": "the feature Containers was installed", "name": "the host got its node's name"}
    return " and ".join(reasons.get(word, word) for word in words)


def _unfinished(rest: Plan) -> HostError:
    if rest.start and not rest.install and not rest.edits:
        return ServiceDied(f"{', '.join(rest.start)} started, and does not run any more; look at its log on the host")
    return NotConverged(differences(rest))
