"""`transom facts`: the current state of hosts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from transom.cli.completion import complete_instance
from transom.cli.findings import Source
from transom.cli.hosts import HostOptions
from transom.cli.messages import print_to_stderr
from transom.cli.options import KeyFile, Output, Port, Username, log_to_stderr, with_option_groups
from transom.cli.output import ExitCode, Format, fail, print_data
from transom.cli.stopping import StopPlan, register_stop_plan, run_until_stopped
from transom.proxy.secret import redact_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transom.hosts.errors import HostError
    from transom.hosts.ssh.ssh_client import Access, Timeouts
    from transom.proxy.secret import Secret
    from transom.windows.host.host_state import ObservedState
    from transom.windows.ledger import Ledger


_INSTANCE: Final = (
    "; if it is the name of a WindowsInstance, add -f PATH, its manifest, or take the host's address: "
    "`kubectl get windowsinstances -A` shows it"
)


@with_option_groups
def facts(
    source: Source,
    options: HostOptions,
    hosts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[HOST]...",
            help="DNS names, IP addresses or USER@ADDRESS. With -f, --context or -n, names of WindowsInstances.",
            autocompletion=complete_instance,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Select every host of the manifests or of the cluster.")] = False,
    username: Username = "",
    port: Port = None,
    key: KeyFile = None,
    services: Annotated[
        list[str] | None,
        typer.Option(
            "--service", metavar="NAME", help="Service to show. Repeatable. [default: those of spec.windows.services]"
        ),
    ] = None,
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Show the credentials in proxy URLs.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Show the current state of hosts.

    The state includes proxy variables, services, certificates, and Transom's ledger. The command leaves nothing on a host.
    With -f or a cluster, select WindowsInstances by name, --limit, -l or --all.
    """
    from transom.hosts.errors import HostError
    from transom.hosts.ssh.connections import NOT_RESOLVED
    from transom.proxy.settings import WindowsSettings

    selects = bool(every or options.limit or options.selector)
    by_name = bool(source.filename or source.context or source.namespace or selects)
    if every and (hosts or options.limit or options.selector):
        fail("--all is every host: leave out names, --limit and -l")
    if not hosts and not selects:
        fail("no host selected: name addresses, or WindowsInstances with -f or --context; or use --all, --limit or -l")
    if by_name and (username or port or key):
        fail("the WindowsInstances say how hosts are reached: leave --username, --port and --key out")
    wanted = _find_instances(source, hosts or [], options) if by_name else _find_by_address(hosts or [], username, port, key)
    many = selects or len(wanted) > 1
    names = tuple(services or WindowsSettings().services)

    def print_host_read(host: Host, result: "dict[str, Any] | HostError", seconds: float) -> None:
        if isinstance(result, HostError):
            hint = _INSTANCE if not by_name and str(result) == NOT_RESOLVED else ""
            print_to_stderr(f"transom: {host.label}: {result}{hint}")
        elif many:
            print_to_stderr(f"{host.label}: read  {seconds:.1f} s")

    log_to_stderr(verbose=source.verbose)
    reading = HostReader(
        wanted, names, options.timeouts, show_secrets=show_secrets, required=options.require_host_keys, workers=options.workers
    )
    reading.on_end = print_host_read
    stopped = False
    try:
        run_until_stopped(reading.run(), reports=True)
    except KeyboardInterrupt:
        stopped = True
    shown = [result for _, result in reading.results if not isinstance(result, HostError)]
    if output is Format.TEXT:
        from transom.cli.tables import print_facts

        print_facts(shown)
    elif many:
        print_data(shown, output)
    elif shown:
        print_data(shown[0], output)
    if stopped:
        raise SystemExit(ExitCode.INTERRUPTED)
    if len(shown) < len(wanted):
        raise SystemExit(ExitCode.NOT_DONE)


class Host(NamedTuple):
    """A host to read, and the WindowsInstance that names it; empty where a person gave its address."""

    access: "Access"
    name: str = ""

    @property
    def label(self) -> str:
        """What it is called in a message."""
        return self.name or self.access.address


class HostReader:
    """The reading of hosts: the current state of each, or why it is not known."""

    def __init__(
        self,
        hosts: "Sequence[Host]",
        services: tuple[str, ...],
        timeouts: "Timeouts",
        *,
        show_secrets: bool,
        required: bool,
        workers: int = 32,
    ) -> None:
        self._hosts, self._services, self._timeouts, self._workers = hosts, services, timeouts, workers
        self._show_secrets, self._required = show_secrets, required
        self._read: dict[int, dict[str, Any] | HostError] = {}
        self.on_end: Callable[[Host, dict[str, Any] | HostError, float], None] = lambda _host, _result, _seconds: None
        """Called with each host as it ends, its result and the seconds that it took."""

    async def run(self) -> None:
        """Read the hosts, some at a time. A signal stops it; what is known by then stays in `results`."""
        import time

        from transom.apply.roll_out import run_concurrently
        from transom.cli.state import build_pass_settings, open_host_keys
        from transom.hosts.errors import HostError
        from transom.hosts.passes.base_pass import query_host
        from transom.windows.planning.queries import build_facts_queries

        known, pass_settings = open_host_keys(required=self._required), build_pass_settings(self._timeouts)
        queries = build_facts_queries(self._services)

        async def read_host(numbered: tuple[int, Host]) -> "tuple[dict[str, Any] | HostError, float]":
            start, (_, host) = time.monotonic(), numbered
            try:
                state = await query_host(host.access, known, pass_settings, queries)
            except HostError as error:
                return error, time.monotonic() - start
            data = build_host_view(host.access.address, state, show_secrets=self._show_secrets)
            return ({"name": host.name} if host.name else {}) | data, time.monotonic() - start

        with register_stop_plan(self._build_stop_plan):
            reading = run_concurrently(
                enumerate(self._hosts), read_host, self._workers, build_default=lambda _, fault: (fault, 0.0)
            )
            async for (place, host), (result, seconds) in reading:
                self._read[place] = result
                self.on_end(host, result, seconds)

    @property
    def results(self) -> "list[tuple[Host, dict[str, Any] | HostError]]":
        """Each host with its current state, or why it is not known."""
        from transom.apply.report import STOPPED
        from transom.hosts.errors import HostError

        return [(host, self._read.get(place) or HostError(STOPPED)) for place, host in enumerate(self._hosts)]

    @staticmethod
    def _build_stop_plan() -> StopPlan:
        from transom.hosts.passes.base_pass import STOP_SECONDS

        left = r"temporary files may stay in C:\Windows\Transom until the next command on the host"
        return StopPlan("removing temporary files from the hosts that are being read", STOP_SECONDS, left)


def _find_by_address(addresses: list[str], username: str, port: int | None, key: Path | None) -> list[Host]:
    return [Host(access) for access in parse_addresses(addresses, username, port, key)]


def _find_instances(source: Source, names: list[str], options: HostOptions) -> list[Host]:
    """Return the hosts of the selected WindowsInstances; end the command if a name matches none."""
    from transom.apply.target import list_targets
    from transom.cli.findings import examine_or_fail
    from transom.cli.host_names import describe_unknown, select_names

    objects, examined = examine_or_fail(source, needs_settings=False)
    targets = options.select_targets(list_targets(objects, examined.settings, ssh_config=True))
    if names:
        known = [target.instance.name for target in targets]
        selection = select_names(known, names)
        if selection.unknown:
            fail(describe_unknown(selection.unknown, known, " ".join(source.filename or ())))
        targets = [target for target in targets if target.instance.name in selection.names]
    if not targets:
        place = " ".join(source.filename) if source.filename else f"namespace {source.effective_namespace} of the cluster"
        fail(f"no WindowsInstance exists in {place}", ExitCode.NOT_DONE)
    return [Host(target.access, target.instance.name) for target in targets]


def parse_addresses(addresses: list[str], username: str, port: int | None, key: Path | None) -> "list[Access]":
    """Return how to reach the hosts that the user named; end the command if an address or the key is invalid."""
    from transom.cli.init_answers import InvalidAnswer, read_text_file
    from transom.hosts.errors import HostError
    from transom.hosts.ssh.ssh_client import Access, read_configured_port
    from transom.proxy.secret import Secret

    try:
        keys = (Secret(read_text_file(str(key))),) if key else ()
    except InvalidAnswer as error:
        fail(str(error))
    _check_key(key, keys)
    try:
        return [
            Access(item, port or read_configured_port(item), user or username, keys, ssh_config=True, key_source=str(key or ""))
            for user, item in map(_parse_ssh_address, addresses)
        ]
    except HostError as error:
        fail(str(error), ExitCode.NOT_DONE)


def _parse_ssh_address(text: str) -> tuple[str, str]:
    """Parse `user@address`; end the command if it is not an address."""
    from transom.windows.nodes.windows_instance import is_address

    user, _, address = text.rpartition("@")
    head, colon, tail = address.rpartition(":")
    if not is_address(address):
        hint = f": name the port with --port {tail}" if colon and tail.isdigit() and is_address(head.strip("[]")) else ""
        fail(f"{address!r} is not a DNS name or IP address{hint or ', for example win-1.example.com or 10.0.0.7'}")
    return user, address


def _check_key(path: Path | None, keys: "tuple[Secret, ...]") -> None:
    from transom.hosts.errors import KeyUnusable
    from transom.hosts.ssh.ssh_client import parse_private_key

    for key in keys:
        try:
            parse_private_key(key)
        except KeyUnusable as error:
            fail(f"--key {path}: {error}")


def build_host_view(address: str, state: "ObservedState", *, show_secrets: bool) -> dict[str, Any]:
    """Return a host as JSON; the userinfo of URLs is redacted without `show_secrets`."""
    from transom.windows import ledger
    from transom.windows.host.queries import ENVIRONMENT, SERVICES
    from transom.windows.parts import certificates
    from transom.windows.registry.values import ValueType

    def redact(name: str, value: str) -> str:
        return value if show_secrets else redact_variable(name, value)

    def build_variables() -> dict[str, str]:
        key = state.registry.find_key(ENVIRONMENT)
        present = (key.values or {}).values() if key else ()
        return {
            v.name: redact(v.name, v.value.decode_text())
            for v in present
            if v.value.type in (ValueType.SZ, ValueType.EXPAND_SZ)
        }

    def build_service(name: str) -> dict[str, Any]:
        path = rf"{SERVICES}\{name}"
        environment, start = state.registry.find_value(path, "Environment"), state.registry.find_value(path, "Start")
        items = environment.to_texts() if environment and environment.type == ValueType.MULTI_SZ else ()
        named = (item.partition("=") for item in items if "=" in item)
        present = state.find_service(name)
        return {
            "state": present.state.name if present else "",
            "start": _STARTS.get(start.to_number(), str(start.to_number())) if start else "",
            "environment": {key: redact(key, value) for key, _, value in named},
        }

    stores = {
        name: state.registry.list_children(certificates.get_store_path(name)) for name in (certificates.ROOT, certificates.CA)
    }
    return {
        "address": address,
        "computerName": state.computer_name,
        "osVersion": state.os_version,
        "environment": build_variables(),
        "services": {present.name: build_service(present.name) for present in state.services},
        "certificates": {name: sorted(sha1.upper() for sha1 in present) for name, present in stores.items()},
        "ledger": _build_ledger(ledger.read(state.registry)),
    }


def _build_ledger(present: "Ledger") -> dict[str, Any]:
    """Return Transom's entries; of earlier values only that they existed, since they may be credentials."""
    if not present:
        return {}
    return {
        "stateHash": present.state_hash,
        "machine": {
            name: {"replaced": entry.was is not None, "boot": entry.boot}
            for name, entry in present.environment.machine.items()
            if entry.gone is None
        },
        "services": {
            name: {variable: {"replaced": bool(entry.was)} for variable, entry in service.variables.items()}
            for name, service in present.environment.services.items()
        },
        "certificates": {
            store: {sha1: "added" if entry.added else "found" for sha1, entry in entries.items()}
            for store, entries in present.trust.items()
        },
        "restarts": present.downtime.restarts,
    }


_STARTS = {0: "boot", 1: "system", 2: "auto", 3: "demand", 4: "disabled"}
