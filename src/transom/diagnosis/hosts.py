"""What is wrong with hosts and programs that run: what they have is not what was set."""

from collections.abc import Iterator
from typing import Final

from transom.diagnosis.check import Seen
from transom.diagnosis.next_steps import next_step
from transom.diagnosis.observed import Observed, at, condition, label_of, labels_of, name_of
from transom.diagnosis.overview import overview
from transom.pods.pod import HOST_OS
from transom.windows.nodes import skew

_APPLIED: Final = ("ProxyApplied", "TrustApplied")


def service_older(seen: Observed) -> Iterator[Seen]:
    """Services that run with the environment of before."""
    for one in seen.own("WindowsInstance"):
        said = [each for type_ in _APPLIED if (each := condition(one, type_)).get("reason") == "PendingRestart"]
        if said:
            command = next_step("PendingRestart", name_of(one), seen.namespace, "")
            yield Seen(label_of("WindowsInstance", one), str(said[0].get("message")), command)


def boot_pending(seen: Observed) -> Iterator[Seen]:
    """Hosts whose services keep the machine environment that was there when they booted."""
    for one in seen.own("WindowsInstance"):
        said = condition(one, "RebootRequired")
        if said.get("status") == "True" and said.get("reason") == "PendingBoot":
            node = at(one, "status", "nodeName")
            drain = f"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data, then " if node else ""
            command = f"{drain}on the host: shutdown /r /t 0" + (f", then kubectl uncordon {node}" if node else "")
            yield Seen(label_of("WindowsInstance", one), str(said.get("message")), command)


def version_skew(seen: Observed) -> Iterator[Seen]:
    """Kubelets that do not fit the API server, and parts of Transom of different versions."""
    for node in seen.of("Node"):
        kubelet = str(at(node, "status", "nodeInfo", "kubeletVersion") or "")
        if labels_of(node).get(HOST_OS) != "windows" or not kubelet or not seen.kubernetes:
            continue
        # the sentence is about the payload that a kubelet comes from
        if (said := skew.refusal(kubelet, seen.kubernetes)) is not None:
            yield Seen(
                label_of("Node", node), said.replace("the payload's kubelet", "its kubelet"), "transom payload build DIR"
            )
    images = {
        name: one.image for name, one in (overview(seen).deployments or {}).items() if name in ("transom", "transom-webhook")
    }
    if len(set(images.values())) > 1:
        told = " and ".join(f"{name} {image}" for name, image in images.items())
        command = "transom manifests --image REGISTRY/transom:TAG | kubectl apply -f -"
        yield Seen(f"Deployment/{seen.namespace}/transom", f"the images differ: {told}", command)
