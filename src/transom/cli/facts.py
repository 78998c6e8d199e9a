"""`transom facts`: what a host looks like now."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transom.cli.output import ExitCode, Format, fail, print_data
from transom.cli.timeouts import CHANNEL, CONNECT, WHOLE, ChannelTimeout, ConnectTimeout, PassTimeout, timeouts
from transom.proxy.secret import REDACTED, redact_userinfo

if TYPE_CHECKING:
    from transom.hosts.connection import Access, Timeouts
    from transom.windows.ledger import Ledger
    from transom.windows.state import HostState


def facts(
    addresses: Annotated[list[str], typer.Argument(metavar="ADDRESS...", help="DNS names or IP addresses.")],
    username: Annotated[str, typer.Option("--username", "-u", help="The user; else what ~/.ssh/config says.")] = "",
    port: Annotated[
        int | None, typer.Option("--port", "-p", min=1, max=65535, help="The port; else what ~/.ssh/config says, or 22.")
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", "-i", help="A private key; else the agent and ~/.ssh.")] = None,
    services: Annotated[
        list[str] | None, typer.Option("--service", help="A service to look at; else the default list.")
    ] = None,
    connect_timeout: ConnectTimeout = CONNECT,
    channel_timeout: ChannelTimeout = CHANNEL,
    pass_timeout: PassTimeout = WHOLE,
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Show the credentials in proxy URLs.")] = False,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write it.")] = Format.TEXT,
) -> None:
    """Show what hosts look like now.

    Proxy variables, services, certificates, and what Transom's ledger says. Nothing is left on a host.
    """
    import asyncio

    from transom.hosts.connection import Access, configured_port
    from transom.hosts.errors import HostError
    from transom.proxy.secret import Secret
    from transom.proxy.settings import WindowsSettings

    try:
        keys = (Secret(key.read_text("utf-8")),) if key else ()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{key}: cannot be read: {error.strerror if isinstance(error, OSError) else 'not text'}")
    names = tuple(services or WindowsSettings().services)
    try:
        hosts = [Access(one, port or configured_port(one), username, keys, ssh_config=True) for one in addresses]
    except HostError as error:
        fail(str(error), ExitCode.NOT_DONE)
    try:
        found = asyncio.run(_look(hosts, names, timeouts(connect_timeout, channel_timeout, pass_timeout)))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    read = [(host, state) for host, state in found if not isinstance(state, HostError)]
    shown = [view(host.address, state, show_secrets=show_secrets) for host, state in read]
    if output is Format.TEXT:
        from transom.cli.tables import print_facts

        print_facts(shown)
    elif len(addresses) > 1:
        print_data(shown, output)
    elif shown:
        print_data(shown[0], output)
    for host, state in found:
        if isinstance(state, HostError):
            sys.stderr.write(f"transom: {host.address}: {state}\n")
    if len(read) < len(found):
        raise SystemExit(ExitCode.NOT_DONE)


async def _look(hosts: "list[Access]", names: tuple[str, ...], timeouts: "Timeouts") -> "list[tuple[Access, Any]]":
    from transom.cli.state import host_keys, settings
    from transom.hosts.errors import HostError
    from transom.hosts.fleet import side_by_side
    from transom.hosts.passes import look
    from transom.windows.questions import everything

    known, made = host_keys(), settings(timeouts)

    async def work(host: "Access") -> Any:
        try:
            return await look(host, known, made, everything(names))
        except HostError as error:
            return error

    found = {id(host): state async for host, state in side_by_side(hosts, work)}
    return [(host, found[id(host)]) for host in hosts]


def view(address: str, state: "HostState", *, show_secrets: bool) -> dict[str, Any]:
    """A host as JSON; the userinfo of URLs is redacted without `show_secrets`."""
    from transom.windows import certificates, ledger
    from transom.windows.gathering import ENVIRONMENT, SERVICES
    from transom.windows.registry import ValueType

    def shown(name: str, value: str) -> str:
        return value if show_secrets else _redacted(name, value)

    def variables() -> dict[str, str]:
        key = state.registry.key(ENVIRONMENT)
        held = (key.values or {}).values() if key else ()
        return {v.name: shown(v.name, v.value.text()) for v in held if v.value.type in (ValueType.SZ, ValueType.EXPAND_SZ)}

    def service(name: str) -> dict[str, Any]:
        path = rf"{SERVICES}\{name}"
        environment, start = state.registry.value(path, "Environment"), state.registry.value(path, "Start")
        items = environment.texts() if environment and environment.type == ValueType.MULTI_SZ else ()
        named = (item.partition("=") for item in items if "=" in item)
        held = state.service(name)
        return {
            "state": held.state.name if held else "",
            "start": _STARTS.get(start.number(), str(start.number())) if start else "",
            "environment": {key: shown(key, value) for key, _, value in named},
        }

    stores = {name: state.registry.children(certificates.store(name)) for name in (certificates.ROOT, certificates.CA)}
    return {
        "address": address,
        "computerName": state.computer_name,
        "osVersion": state.os_version,
        "environment": variables(),
        "services": {held.name: service(held.name) for held in state.services},
        "certificates": {name: sorted(sha1.upper() for sha1 in held) for name, held in stores.items()},
        "ledger": _ledger(ledger.read(state.registry)),
    }


def _ledger(held: "Ledger") -> dict[str, Any]:
    """What is ours; of what was there before only that it was, since it may be a credential."""
    if not held:
        return {}
    return {
        "stateHash": held.state_hash,
        "machine": {name: {"replaced": entry.was is not None, "boot": entry.boot} for name, entry in held.machine.items()},
        "services": {
            name: {variable: {"replaced": bool(entry.was)} for variable, entry in service.variables.items()}
            for name, service in held.services.items()
        },
        "certificates": {
            store: {sha1: "added" if entry.added else "found" for sha1, entry in entries.items()}
            for store, entries in held.certificates.items()
        },
        "restarts": held.restarts,
    }


_STARTS = {0: "boot", 1: "system", 2: "auto", 3: "demand", 4: "disabled"}


def _redacted(name: str, value: str) -> str:
    if name.upper().endswith("_PROXY") and name.upper() != "NO_PROXY" and "://" not in value and "@" in value:
        return f"{REDACTED}@{value.rpartition('@')[2]}"
    return redact_userinfo(value)
