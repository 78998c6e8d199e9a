"""One Windows host brought to its settings: from a WindowsInstance and its Egress to a report."""

import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import msgspec

from transom.apply import HostReport, Result
from transom.hosts.errors import AuthenticationRefused, HostError, ManagedByOther
from transom.hosts.passes import EVERYBODY, Admit, PassResult, PassSettings, key_move
from transom.hosts.passes.converge import converge
from transom.hosts.ssh import Access
from transom.hosts.ssh.known_hosts import HostKeys
from transom.proxy.layers import BASE
from transom.proxy.secret import Secret
from transom.proxy.settings import Effective, Egress, Withheld
from transom.sources.objects import Objects
from transom.windows import ledger
from transom.windows.host import ObservedState, Step
from transom.windows.host.queries import LEDGER, Queries
from transom.windows.nodes import PREVIOUS, WindowsInstance, earlier_keys, fetch, private_key
from transom.windows.parts.adopted import Adopted
from transom.windows.parts.plan_builder import When
from transom.windows.planning import Plan, desired_settings, plan
from transom.windows.planning import queries as questions

RESTART: Final = "transom.dev/restart"
_MOVED: Final = Step("file", key_move.KEYS, "replace", f"{PREVIOUS} opens the host, and the key after it does not")


class ApiServerUnknown(HostError):
    """A NO_PROXY without the API server's host must not reach a kubelet."""


class CredentialsWithheld(HostError):
    """The host is of a workload cluster that the proxy's credentials were not sent to: it stays as it is."""

    def __init__(self, withheld: Withheld) -> None:
        super().__init__(
            f"the proxy of EgressProxy/{withheld.by} has credentials, and its spec.clusterSelector does not say which clusters "
            "get them: the host is left as it is"
        )


class SettingsMissing(HostError):
    """No object speaks of the host's cluster any more, and nobody has said that there is to be no proxy: it stays as it is."""

    def __init__(self) -> None:
        super().__init__(
            f"there is no EgressProxy/{BASE}, and the host keeps the settings that it has: make the EgressProxy, with an empty "
            "spec to take them away"
        )


class Target(msgspec.Struct, frozen=True):
    """A host and what it should get. `previous` are earlier keys that may still open it; `withheld`: it is left as it is."""

    instance: WindowsInstance
    egress: Egress
    key: Secret | None
    ssh_config: bool = False
    previous: tuple[Secret, ...] = ()
    withheld: Withheld | None = None

    @property
    def access(self) -> Access:
        """How the host is reached."""
        spec = self.instance.spec
        keys = (self.key, *self.previous) if self.key else ()
        return Access(spec.address, spec.port, spec.username, keys, spec.host_key, self.ssh_config)


def emptied(target: Target) -> Target:
    """The host with what was set on it taken away, by a person's word."""
    return msgspec.structs.replace(target, egress=Egress(windows=target.egress.windows), withheld=None)


def targets_of(objects: Objects, settings: Effective, *, ssh_config: bool) -> list[Target]:
    """The hosts that the objects name, each with its settings and its keys; `ssh_config` as in Access."""
    return [
        Target(
            instance,
            settings.of(instance) or Egress(),
            private_key(instance, objects),
            ssh_config=ssh_config,
            previous=earlier_keys(instance, objects),
            withheld=settings.withheld_from(instance),
        )
        for instance in objects.windows_instances
    ]


Work = Callable[[Target, Admit], Awaitable[PassResult]]
"""A pass on a host; what it is given says, when it is asked before a change, whether it is the host's turn."""


def passing(host_keys: HostKeys, settings: PassSettings, *, dry_run: bool = False) -> Work:
    """Passes whose troubles are in their results. A host that is paused, or gets nothing, is not connected to.

    A host is known by one of `host_keys`; `settings` say who works, and how long he waits. With `dry_run` hosts are only read.
    """

    async def work(target: Target, admit: Admit) -> PassResult:
        if target.instance.spec.paused:
            return PassResult()
        if target.withheld is not None:
            return PassResult(error=CredentialsWithheld(target.withheld))
        return await one_pass(target, host_keys, settings, dry_run=dry_run, admit=admit)

    return work


def converging(host_keys: HostKeys, settings: PassSettings, *, dry_run: bool) -> Callable[[Target], Awaitable[HostReport]]:
    """The same for hosts that do not wait for each other (`roll_out.side_by_side`): every trouble is in the host's report."""
    return reporting(passing(host_keys, settings, dry_run=dry_run), dry_run=dry_run)


def reporting(work: Work, *, dry_run: bool) -> Callable[[Target], Awaitable[HostReport]]:
    """Passes over hosts that do not wait for each other, each with its report; with `dry_run` hosts are only read."""

    async def reported(target: Target) -> HostReport:
        return report_of(target, await work(target, EVERYBODY), dry_run=dry_run)

    return reported


async def one_pass(
    target: Target,
    host_keys: HostKeys,
    settings: PassSettings,
    *,
    dry_run: bool = False,
    change_expected: bool = True,
    check: Callable[[ObservedState], None] = lambda _: None,
    fetch_anyway: bool = False,
    admit: Admit = EVERYBODY,
    taken: Adopted | None = None,
) -> PassResult:
    """One pass on the host; its troubles are in the result.

    With `dry_run` nothing is changed. Where `change_expected` is false less is read at first, and a change costs a second
    gather. With `fetch_anyway` the host tries the readiness endpoints also where nothing was changed.

    `check` sees each state that a plan is made from. It raises a HostError where the host must not be changed; whatever else it
    raises ends the pass, and is raised here. `admit` is asked before a change: where it says no, the host is only read.
    `taken` is what another operator left that had the host before.
    """
    when, salt = restarts(target), secrets.token_bytes(16)

    def judge(actual: ObservedState) -> None:
        check(actual)
        _check(target.egress, actual)

    desired = desired_settings(target.egress)
    asked = questions.first(desired, change_expected=change_expected, boot=when != "now")
    if taken is not None:
        asked = questions.combined(asked, Queries(environment=True, boot=True))

    def planner(actual: ObservedState) -> Plan:
        judge(actual)
        return plan(desired, actual, salt, when, taken=taken, manager=settings.manager)

    return await converge(
        target.access,
        host_keys,
        settings,
        asked,
        planner=planner,
        dry_run=dry_run,
        fetches=partial(fetch.configurations, target.egress),
        fetch_anyway=fetch_anyway,
        admit=admit,
    )


def restarts(target: Target) -> When:
    """When services are restarted on this host. Annotation `transom.dev/restart` is the word that `Manual` waits for."""
    match target.egress.windows.restart:
        case "OnNextBoot":
            return "boot"
        case "Manual" if not target.instance.metadata.annotations.get(RESTART):
            return "manual"
    return "now"


def check_missing(egress: Egress, actual: ObservedState) -> None:
    """Raises SettingsMissing where the host would lose what nobody has said that it should lose."""
    if egress.missing and actual.registry.key(LEDGER) is not None and ledger.read(actual.registry).holds_settings:
        raise SettingsMissing


def _check(egress: Egress, actual: ObservedState) -> None:
    check_missing(egress, actual)
    proxied = egress.http_proxy is not None or egress.https_proxy is not None
    if proxied and not egress.api_server_known and actual.service("kubelet") is not None:
        raise ApiServerUnknown(
            "the host has a kubelet, and NO_PROXY lacks the API server's host, which is not known: "
            "set spec.networks.internalAPIHost of EgressProxy/cluster"
        )


def report_of(target: Target, found: PassResult, *, dry_run: bool = False) -> HostReport:
    """What people see of a pass over a host; with `dry_run` what it would do.

    A host without egress with its new settings has failed, whatever else it says.
    """
    error = found.error
    result: Result = "skipped" if isinstance(error, ManagedByOther) else found.result
    told = str(error) if error else None
    fetched = fetch.judge(target.egress, found.fetched)
    if error is None and found.begun and fetched.works == "False":
        result, told = "failed", f"the change was carried out, and the host has no egress: {fetched.message}"
    if target.instance.spec.paused:
        result, told = "skipped", "spec.paused is set: not connected to"
    return HostReport(
        name=target.instance.name,
        address=target.instance.spec.address,
        result=result,
        changes=(*found.first, *(found.plan.steps if found.plan else ())),
        restarted=() if dry_run else found.restarted,
        channels=found.channels,
        seconds=round(found.seconds, 3),
        error=told,
        warnings=found.plan.warnings if found.plan is not None else (),
    )


def moving(work: Work, host_keys: HostKeys, settings: PassSettings, *, dry_run: bool = False) -> Work:
    """The same passes, also for hosts that only an earlier key opens: they are moved to the key of their Secret first.

    The operator knows from their status which key opens them (`key_rotation`). Here it is tried; with `dry_run` such a host is
    read with the earlier key.
    """

    async def moved(target: Target, admit: Admit) -> PassResult:
        alone = msgspec.structs.replace(target, previous=())
        found = await work(alone, admit)
        if not target.previous or not isinstance(found.error, AuthenticationRefused):
            return found
        if dry_run:
            read = await work(target, admit)
            return read if isinstance(read.error, AuthenticationRefused) else msgspec.structs.replace(read, first=(_MOVED,))
        if not await admit():
            return PassResult(waiting=True)
        try:
            await key_move.move(alone.access, target.previous, host_keys, settings)
        except HostError as error:
            return PassResult(error=error, begun=isinstance(error, key_move.AGAINST_THE_KEY))
        return msgspec.structs.replace(await work(alone, EVERYBODY), first=(_MOVED,), begun=True)

    return moved
