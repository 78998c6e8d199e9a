"""As whom a command works on hosts: a person's files, or the operator whose objects it reads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from transom.cli.cluster import ask
from transom.cli.findings import Source
from transom.windows.ledger.manager import FILES, Manager

if TYPE_CHECKING:
    from transom.apply.target import Target
    from transom.kube.client import Client


def manager_of(source: Source, *, adopts: bool = False) -> Manager:
    """The manager whose hosts these are: with the operator's own objects it is the operator."""
    if source.filename:
        return Manager(FILES, adopts=adopts)

    async def read(client: "Client") -> str:
        from transom.hosts.owner import operator
        from transom.kube.errors import NotFound
        from transom.kube.resources import NAMESPACES

        try:
            found = await client.get(NAMESPACES, source.own)
        except NotFound:
            return ""
        return operator(source.own, found.metadata.uid).manager if found.metadata.uid else ""

    return Manager(ask(source, read), adopts=adopts)


def pause(targets: "Sequence[Target]", source: Source) -> None:
    """Pause the operator's instances of these hosts: it connects to none of them any more."""

    async def paused(client: "Client") -> None:
        from transom.cli.output import tell
        from transom.kube.resources import WINDOWS_INSTANCES

        places = {(target.instance.spec.address.casefold(), target.instance.spec.port) for target in targets}
        for one in (await client.list_objects(WINDOWS_INSTANCES, source.own)).items:
            spec = one.value.get("spec") or {}
            if (str(spec.get("address", "")).casefold(), spec.get("port", 22)) in places and not spec.get("paused"):
                await client.patch(WINDOWS_INSTANCES, {"spec": {"paused": True}}, one.metadata.name, source.own)
                tell(f"transom: WindowsInstance {one.metadata.name} is paused: its operator leaves the host alone")

    ask(source, paused)
