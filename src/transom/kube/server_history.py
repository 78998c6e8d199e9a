"""Detect that an API server's objects are those of another time, or of another cluster, because etcd was restored.

Resource versions of one kind grow in the whole life of a cluster and compare as integers (KEP-5504;
https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions). After a restore they start again from an older
number, and a watch from a newer one is silent until the server has caught up with it (etcd-io/etcd#16028).
"""

import asyncio
from typing import Final

import structlog

_log: Final = structlog.get_logger("transom.kube.server_history")


class ServerHistory:
    """Compares what a server answers with what it answered before; each subject has versions of its own.

    Observe only what the server reads from etcd itself: an object by GET, a list without a version, the answer to a write.
    """

    def __init__(self) -> None:
        self.replaced = asyncio.Event()
        """Set once an answer contradicts an earlier one: what was read before is worth nothing."""
        self.evidence = ""
        """The first contradiction."""
        self._versions: dict[str, int] = {}
        self._identities: dict[str, str] = {}

    def observe_version(self, subject: str, version: str | None) -> None:
        """Compare the resource version of a kind, or of one object, with the highest one so far."""
        if not version or not version.isdecimal():
            return
        number, highest = int(version), self._versions.get(subject, 0)
        if number < highest:
            self.report_cluster_restore(f"{subject} has version {number}, and had {highest} before")
        else:
            self._versions[subject] = number

    def raise_highest_version(self, subject: str, version: str | None) -> None:
        """Note a version that a watch brought: the server has come that far, and compares nothing itself."""
        if version and version.isdecimal():
            self._versions[subject] = max(int(version), self._versions.get(subject, 0))

    def observe_identity(self, subject: str, uid: str | None) -> None:
        """Compare the UID of an object that Transom keeps for ever with the UID that it had before."""
        if uid and self._identities.setdefault(subject, uid) != uid:
            former = self._identities[subject]
            self.report_cluster_restore(
                f"{subject} has UID {uid}, and had {former}: it was deleted, or the cluster is another one"
            )

    def report_cluster_restore(self, evidence: str) -> None:
        """Note that the server's objects are others."""
        if not self.replaced.is_set():
            self.evidence = evidence
            _log.warning("cluster restored", evidence=evidence)
            self.replaced.set()

    def reset_history(self) -> None:
        """Start again: everything is read once more."""
        self.replaced.clear()
        self.evidence = ""
        self._versions.clear()
        self._identities.clear()
