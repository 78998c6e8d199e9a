"""`transom facts`: what a host looks like now."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from transom.cli.findings import files
from transom.cli.options import KeyFile, Port, RequireHostKeys, Username, Verbose, log_to_stderr
from transom.cli.output import ExitCode, Format, fail, print_data, tell
from transom.cli.timeouts import CHANNEL, CONNECT, WHOLE, ChannelTimeout, ConnectTimeout, PassTimeout, timeouts
from transom.proxy.secret import redact_variable

if TYPE_CHECKING:
    from transom.hosts.errors import HostError
    from transom.hosts.ssh import Access, Timeouts
    from transom.proxy.secret import Secret
    from transom.windows.host import ObservedState
    from transom.windows.ledger import Ledger


_INSTANCE: Final = (
    "; if it is the name of a WindowsInstance, add -f PATH, its manifest, or take the host's address: "
    "`kubectl get windowsinstances -A` shows it"
)


def facts(
    addresses: Annotated[
        list[str],
        typer.Argument(
            metavar="ADDRESS...", help="DNS names or IP addresses, also as USER@ADDRESS; with -f names of WindowsInstances."
        ),
    ],
    username: Username = "",
    port: Port = None,
    key: KeyFile = None,
    filename: Annotated[
        list[str] | None,
        files("Manifests that say how the WindowsInstances are reached."),
    ] = None,
    services: Annotated[
        list[str] | None, typer.Option("--service", metavar="NAME", help="A service to look at; else the default list.")
    ] = None,
    connect_timeout: ConnectTimeout = CONNECT,
    channel_timeout: ChannelTimeout = CHANNEL,
    pass_timeout: PassTimeout = WHOLE,
    require_host_keys: RequireHostKeys = False,
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Show the credentials in proxy URLs.")] = False,
    verbose: Verbose = False,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write it.")] = Format.TEXT,
) -> None:
    """Show what hosts look like now.

    Proxy variables, services, certificates, and what Transom's ledger says. Nothing is left on a host.
    """
    import asyncio

    from transom.hosts.errors import HostError
    from transom.hosts.ssh import NOT_RESOLVED
    from transom.proxy.settings import WindowsSettings

    if filename:
        if username or port or key:
            fail("-f says how the instances are reached: leave --username, --port and --key out")
        hosts = _instances(filename, addresses)
    else:
        hosts = addressed(addresses, username, port, key)
    names = tuple(services or WindowsSettings().services)
    try:
        log_to_stderr(verbose=verbose)
        made = timeouts(connect_timeout, channel_timeout, pass_timeout)
        found = asyncio.run(looked(hosts, names, made, show_secrets=show_secrets, required=require_host_keys))
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.INTERRUPTED) from None
    shown = [looks for _, looks in found if not isinstance(looks, HostError)]
    if output is Format.TEXT:
        from transom.cli.tables import print_facts

        print_facts(shown)
    elif len(addresses) > 1:
        print_data(shown, output)
    elif shown:
        print_data(shown[0], output)
    for host, looks in found:
        if isinstance(looks, HostError):
            hint = _INSTANCE if not filename and str(looks) == NOT_RESOLVED else ""
            tell(f"transom: {host.address}: {looks}{hint}")
    if len(shown) < len(found):
        raise SystemExit(ExitCode.NOT_DONE)


def _instances(paths: list[str], names: list[str]) -> "list[Access]":
    """The hosts of these WindowsInstances."""
    from transom.apply.target import targets_of
    from transom.cli.findings import Source, examine_or_fail
    from transom.cli.hosts import named

    objects, examined = examine_or_fail(Source(filename=paths))
    known = {target.instance.name: target.access for target in targets_of(objects, examined.settings, ssh_config=True)}
    for name in names:
        if name not in known:
            fail(f"there is no WindowsInstance {name} in {' '.join(paths)}; there {named(list(known))}")
    return [known[name] for name in names]


def addressed(addresses: list[str], username: str, port: int | None, key: Path | None) -> "list[Access]":
    """How hosts are reached that a person names; ends the command where an address or the key is none."""
    from transom.hosts.errors import HostError
    from transom.hosts.ssh import Access, configured_port
    from transom.proxy.secret import Secret

    try:
        keys = (Secret(key.read_text("utf-8")),) if key else ()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{key}: cannot be read: {error.strerror if isinstance(error, OSError) else 'not text'}")
    _check_key(key, keys)
    try:
        return [
            Access(one, port or configured_port(one), user or username, keys, ssh_config=True)
            for user, one in map(_as_ssh_writes, addresses)
        ]
    except HostError as error:
        fail(str(error), ExitCode.NOT_DONE)


def _as_ssh_writes(text: str) -> tuple[str, str]:
    """User and address of `user@address`; ends the command where it is no address."""
    from transom.windows.nodes import is_address

    user, _, address = text.rpartition("@")
    head, colon, tail = address.rpartition(":")
    if not is_address(address):
        hint = f": name the port with --port {tail}" if colon and tail.isdigit() and is_address(head.strip("[]")) else ""
        fail(f"{address!r} is no DNS name or IP address{hint or ', for example win-1.example.com or 10.0.0.7'}")
    return user, address


def _check_key(path: Path | None, keys: "tuple[Secret, ...]") -> None:
    from transom.hosts.errors import KeyUnusable
    from transom.hosts.ssh import private_key

    for key in keys:
        try:
            private_key(key)
        except KeyUnusable as error:
            fail(f"--key {path}: {error}")


async def looked(
    hosts: "list[Access]", names: tuple[str, ...], timeouts: "Timeouts", *, show_secrets: bool, required: bool
) -> "list[tuple[Access, dict[str, Any] | HostError]]":
    """Each host with what it looks like, or why that is not known."""
    from transom.apply.roll_out import side_by_side
    from transom.cli.state import host_keys, settings
    from transom.hosts.errors import HostError
    from transom.hosts.passes import look
    from transom.windows.planning.queries import everything

    known, made = host_keys(required=required), settings(timeouts)

    async def work(host: "Access") -> dict[str, Any] | HostError:
        try:
            return view(host.address, await look(host, known, made, everything(names)), show_secrets=show_secrets)
        except HostError as error:
            return error

    found = {id(host): looks async for host, looks in side_by_side(hosts, work, otherwise=lambda _, fault: fault)}
    return [(host, found[id(host)]) for host in hosts]


def view(address: str, state: "ObservedState", *, show_secrets: bool) -> dict[str, Any]:
    """A host as JSON; the userinfo of URLs is redacted without `show_secrets`."""
    from transom.windows import ledger
    from transom.windows.host.queries import ENVIRONMENT, SERVICES
    from transom.windows.parts import certificates
    from transom.windows.registry.values import ValueType

    def shown(name: str, value: str) -> str:
        return value if show_secrets else redact_variable(name, value)

    def variables() -> dict[str, str]:
        key = state.registry.key(ENVIRONMENT)
        present = (key.values or {}).values() if key else ()
        return {v.name: shown(v.name, v.value.text()) for v in present if v.value.type in (ValueType.SZ, ValueType.EXPAND_SZ)}

    def service(name: str) -> dict[str, Any]:
        path = rf"{SERVICES}\{name}"
        environment, start = state.registry.value(path, "Environment"), state.registry.value(path, "Start")
        items = environment.texts() if environment and environment.type == ValueType.MULTI_SZ else ()
        named = (item.partition("=") for item in items if "=" in item)
        present = state.service(name)
        return {
            "state": present.state.name if present else "",
            "start": _STARTS.get(start.number(), str(start.number())) if start else "",
            "environment": {key: shown(key, value) for key, _, value in named},
        }

    stores = {name: state.registry.children(certificates.store(name)) for name in (certificates.ROOT, certificates.CA)}
    return {
        "address": address,
        "computerName": state.computer_name,
        "osVersion": state.os_version,
        "environment": variables(),
        "services": {present.name: service(present.name) for present in state.services},
        "certificates": {name: sorted(sha1.upper() for sha1 in present) for name, present in stores.items()},
        "ledger": _ledger(ledger.read(state.registry)),
    }


def _ledger(present: "Ledger") -> dict[str, Any]:
    """What is ours; of what was there before only that it was, since it may be a credential."""
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
