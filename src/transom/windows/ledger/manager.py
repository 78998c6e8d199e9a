"""Who works on a host, as its ledger names them: of two, the one that comes later is refused until a person says otherwise."""

from typing import Final

import msgspec

from transom.shown import shown

MANAGER: Final = "Manager"
"""The value of the ledger."""
FILES: Final = "files"
"""The manager of hosts that a person's files describe."""
_MOST: Final = 300
_REMEDY: Final = (
    'It is taken over with annotation transom.dev/adopt: "true" on its WindowsInstance, or by `transom apply --take-over`'
)


class OtherManager(Exception):
    """The ledger names another manager than the one that would change the host. The message is for people."""


class Manager(msgspec.Struct, frozen=True):
    """`name` is `files`, or what `operator` says; empty: it is not noted, and nobody is refused.

    `adopts`: also where the ledger names another one, by a person's word.
    """

    name: str = ""
    adopts: bool = False

    def check(self, noted: str) -> None:
        """Raises OtherManager where the manager that a ledger notes is another one."""
        if self.name and noted and noted != self.name and not self.adopts:
            whose = f"the host is managed by {shown(noted[:_MOST])} (value {MANAGER} of its ledger), and this is {self.name}"
            raise OtherManager(f"{whose}. {_REMEDY}")


def operator(namespace: str, cluster: str) -> str:
    """The name of an operator, over all its lives; `cluster` are hex digits that tell clusters apart."""
    return f"the operator in namespace {namespace} of cluster {cluster}"
