"""Machines of OpenShift's Machine API and of Cluster API, as far as they concern Windows hosts."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from transom.controllers.runtime.informers import Informers
from transom.kube.objects import Metadata, ObjectMeta, Projected
from transom.kube.resources import Resource
from transom.kube.store import Store
from transom.kube.versions import PREFERRED
from transom.windows.nodes.inventory import OS_ID, SSH


class CachedApiMachine(Projected, frozen=True):
    """A Machine of either API, without what the server notes of its fields."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None
    status: Any = None

    @property
    def value(self) -> dict[str, Any]:
        """The object in plain values."""
        return {"metadata": msgspec.to_builtins(self.metadata), "spec": self.spec, "status": self.status}

    @property
    def origin(self) -> str:
        """Namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


MACHINES: Final = Resource("machine.openshift.io", "v1beta1", "Machine", "machines", True, CachedApiMachine)
MACHINE_SETS: Final = Resource("machine.openshift.io", "v1beta1", "MachineSet", "machinesets", True, Metadata)
CLUSTER_MACHINES: Final = Resource("cluster.x-k8s.io", PREFERRED, "Machine", "machines", True, CachedApiMachine)


def machines(informers: Informers) -> Store[CachedApiMachine]:
    """Those of the Machine API whose system is Windows, of all namespaces."""
    return informers.watch(MACHINES, labels=f"{OS_ID}=Windows", indexes={"origin": _origin})


def machine_sets(informers: Informers) -> Store[Metadata]:
    """Those of the Machine API, of all namespaces."""
    return informers.watch(MACHINE_SETS)


def cluster_machines(informers: Informers) -> Store[CachedApiMachine]:
    """Those of Cluster API that somebody opened to SSH."""
    return informers.watch(CLUSTER_MACHINES, labels=f"{SSH}=true", indexes={"origin": _origin})


def _origin(machine: CachedApiMachine) -> Iterator[str]:
    yield machine.origin
