"""What somebody falls into who installs Transom for the first time."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from transom.diagnosis import Observed, Seen
from transom.diagnosis.fields import age, at, condition, items, label_of, labels_of, mapping, moment, name_of, namespace_of
from transom.diagnosis.overview import leader
from transom.pods.environment import excluded
from transom.pods.registration import NAME as REGISTRATION
from transom.proxy.layers import BASE
from transom.proxy.secret import Secret
from transom.reasons import next_step
from transom.windows.nodes import KEY, PREVIOUS, WindowsInstanceSpec, has_passphrase
from transom.windows.nodes.inventory import CONFIG_MAP, OF_PEER

_NOT_PULLED: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")


def base_missing(seen: Observed) -> Iterator[Seen]:
    """No EgressProxy is the base, though there is somebody for whom it would be."""
    proxies = seen.of("EgressProxy")
    hosts = [one for one in seen.own("WindowsInstance") if at(one, "spec", "clusterRef") is None]
    if any(name_of(one) == BASE for one in (*proxies, *seen.of("Proxy"))):
        return
    if not hosts and (not proxies or seen.of("Cluster")):
        return
    if not proxies:
        evidence = f"there is no EgressProxy, and {_counted(len(hosts), 'WindowsInstance')} would have it"
        yield Seen(f"EgressProxy/{BASE}", evidence, "transom init DIR makes one to start from; then: kubectl apply -f DIR")
        return
    names = ", ".join(map(name_of, proxies))
    # one with a selector is meant for some workload clusters
    likely = [name_of(one) for one in proxies if at(one, "spec", "clusterSelector") is None]
    first = next(iter(likely), name_of(proxies[0]))
    if not likely:
        evidence = f"EgressProxies are {names}: all select workload clusters, and none is named `{BASE}`"
        yield Seen(f"EgressProxy/{first}", evidence, "transom init DIR makes one to start from; then: kubectl apply -f DIR")
        return
    command = f"{_copied('egressproxy', first, '', BASE, rename=True)} && kubectl delete egressproxy {first}"
    yield Seen(f"EgressProxy/{first}", f"EgressProxies are {names}: none is named `{BASE}`", command)


def instance_elsewhere(seen: Observed) -> Iterator[Seen]:
    """A WindowsInstance, or ConfigMap `windows-instances`, in a namespace that nobody looks at."""
    listed = [one for one in seen.of("ConfigMap") if name_of(one) == CONFIG_MAP]
    for kind, found in (("WindowsInstance", seen.of("WindowsInstance")), ("ConfigMap", listed)):
        for one in found:
            namespace, name, of = namespace_of(one) or "", name_of(one), kind.lower()
            if namespace not in (seen.namespace, OF_PEER):
                moved = _copied(of, name, namespace, seen.namespace)
                evidence = f"it is in namespace {namespace}, Transom in {seen.namespace}"
                yield Seen(label_of(kind, one), evidence, f"{moved} && kubectl delete {of} {name} -n {namespace}")


def reference_elsewhere(seen: Observed) -> Iterator[Seen]:
    """A Secret or a ConfigMap that the settings name, and that is in another namespace than Transom's, or in none."""
    for kind, name, by in references(seen):
        if any(name_of(one) == name for one in seen.own(kind)):
            continue
        places = [namespace for found, namespace, named in seen.elsewhere if (found, named) == (kind, name)]
        wanted = f"{kind}/{seen.namespace}/{name}"
        if places:
            evidence = f"{by} names it; it is in namespace {', '.join(places)}, and not in {seen.namespace}"
            yield Seen(wanted, evidence, _copied(kind.lower(), name, places[0], seen.namespace))
        else:
            yield Seen(wanted, f"{by} names it, and there is none", _made(kind, name, by, seen.namespace))


def references(seen: Observed) -> Iterator[tuple[str, str, str]]:
    """Kind and name of what is looked for in Transom's namespace, and what names it; each once."""
    found: dict[tuple[str, str], str] = {}
    for one in seen.of("EgressProxy"):
        for kind, field in (("Secret", "credentialsSecret"), ("ConfigMap", "trustedCA")):
            if name := at(one, "spec", field, "name"):
                found.setdefault((kind, str(name)), f"spec.{field} of EgressProxy/{name_of(one)}")
    for one in seen.own("WindowsInstance"):
        name = at(one, "spec", "keySecret", "name") or WindowsInstanceSpec().key_secret.name
        found.setdefault(("Secret", str(name)), f"spec.keySecret of WindowsInstance/{name_of(one)}")
    yield from ((kind, name, by) for (kind, name), by in found.items())


def _made(kind: str, name: str, by: str, namespace: str) -> str:
    if kind == "ConfigMap":
        return f"kubectl create configmap {name} -n {namespace} --from-file=ca-bundle.crt=FILE"
    if by.startswith("spec.keySecret"):
        return f"kubectl create secret generic {name} -n {namespace} --from-file={KEY}=FILE"
    return f"kubectl create secret generic {name} -n {namespace} --from-file=username=FILE --from-file=password=FILE"


def definitions_missing(seen: Observed) -> Iterator[Seen]:
    """The server does not know Transom's kinds."""
    if seen.undefined:
        evidence = f"{seen.source} does not know {', '.join(seen.undefined)}: is it the cluster that is meant?"
        yield Seen("CustomResourceDefinition", evidence, "transom manifests --part crds | kubectl apply -f -")


def leader_missing(seen: Observed) -> Iterator[Seen]:
    """Nobody works, though there is work."""
    found = leader(seen)
    if found is None or found.working or not (seen.of("EgressProxy") or seen.of("WindowsInstance")):
        return
    evidence = "nobody ever held it"
    if found.holder:
        evidence = (
            f"{found.holder} was the last to hold it, and renewed it {age(seen.now, moment(found.renewed)) or 'never'} ago"
        )
    command = f"kubectl describe pods -n {seen.namespace} -l app.kubernetes.io/component=operator"
    made = next((one for one in seen.own("Deployment") if name_of(one) == "transom"), None)
    if made is not None and at(made, "spec", "replicas") == 0:
        command = f"kubectl scale deployment transom -n {seen.namespace} --replicas=2"
        evidence += "; Deployment transom has 0 replicas"
    elif why := "; ".join(_not_running(seen)):
        evidence += f"; {why}"
    if seen.was_read("Deployment") and not any(name_of(one) == "transom" for one in seen.own("Deployment")):
        command = "transom manifests --image REGISTRY/transom:TAG | kubectl apply -f -"
        evidence += f"; there is no Deployment transom in namespace {seen.namespace}"
    yield Seen(f"Lease/{seen.namespace}/transom", evidence, command)


def _not_running(seen: Observed) -> Iterator[str]:
    """Why pods of the operator do not run."""
    for pod in seen.own("Pod"):
        if labels_of(pod).get("app.kubernetes.io/component") != "operator":
            continue
        unscheduled = condition(pod, "PodScheduled")
        if unscheduled.get("status") == "False":
            yield f"{name_of(pod)}: {unscheduled.get('reason')}: {unscheduled.get('message')}"
        for status in items(pod, "status", "containerStatuses"):
            waiting, ended = (mapping(status, *path) for path in (("state", "waiting"), ("lastState", "terminated")))
            if waiting.get("reason") and waiting["reason"] not in _NOT_PULLED:
                last = f", last {ended.get('reason')}, exit code {ended.get('exitCode')}" if ended else ""
                yield f"{name_of(pod)}: {waiting['reason']}{last}"


def image_not_pulled(seen: Observed) -> Iterator[Seen]:
    """A pod of Transom's whose image cannot be had."""
    for pod in seen.own("Pod"):
        for status in (*items(pod, "status", "initContainerStatuses"), *items(pod, "status", "containerStatuses")):
            waiting = mapping(status, "state", "waiting")
            if waiting.get("reason") in _NOT_PULLED:
                evidence = f"{status.get('image')}: {waiting['reason']}: {waiting.get('message') or 'no word of the runtime'}"
                command = "transom manifests --image REGISTRY/transom:TAG | kubectl apply -f - (make one: docs/image.md)"
                yield Seen(label_of("Pod", pod), evidence, command)
                break


def key_with_passphrase(seen: Observed) -> Iterator[Seen]:
    """An SSH key that asks for something to be typed."""
    names = {name for kind, name, by in references(seen) if kind == "Secret" and by.startswith("spec.keySecret")}
    for secret in seen.own("Secret"):
        data = mapping(secret, "data")
        for entry in (KEY, PREVIOUS):
            key = data.get(entry)
            if name_of(secret) in names and isinstance(key, Secret) and has_passphrase(key.reveal()):
                made = f"kubectl create secret generic {name_of(secret)} -n {seen.namespace} --from-file={entry}=COPY"
                command = f"ssh-keygen -p -N '' -f COPY && {made} --dry-run=client -o yaml | kubectl apply -f -"
                yield Seen(f"Secret/{seen.namespace}/{name_of(secret)}", f"{entry} is sealed with a passphrase", command)


def credential_with_line_break(seen: Observed) -> Iterator[Seen]:
    """A user name or a password of the proxy that ends with a line break, as `echo` and editors leave one."""
    names = {name for kind, name, by in references(seen) if kind == "Secret" and by.startswith("spec.credentialsSecret")}
    for secret in seen.own("Secret"):
        data = mapping(secret, "data")
        broken = [key for key in ("username", "password") if isinstance(one := data.get(key), Secret) and _ends(one)]
        if name_of(secret) in names and broken:
            name = f"{name_of(secret)} -n {seen.namespace}"
            made = f"kubectl create secret generic {name} --from-literal=username=USER --from-file=password=/dev/stdin"
            command = f"printf %s PASSWORD | {made} --dry-run=client -o yaml | kubectl apply -f -"
            yield Seen(f"Secret/{seen.namespace}/{name_of(secret)}", f"{' and '.join(broken)}: ends with a line break", command)


def _ends(text: Secret) -> bool:
    return text.reveal().endswith("\n")


def webhook_selects_nothing(seen: Observed) -> Iterator[Seen]:
    """The registration is there, or should be, and no pod gets anything."""
    egress = seen.pod_egress
    if egress is None or not egress.gives:
        return
    if egress.withheld:
        evidence = "the proxy has credentials, and spec.pods.namespaceSelector is not set: pods get no proxy"
        yield Seen(f"EgressProxy/{BASE}", evidence, _SELECT)
        return
    for one in seen.of("MutatingWebhookConfiguration"):
        if name_of(one) == REGISTRATION and not one.get("webhooks"):
            evidence = "it asks about no pod, though the settings are for pods"
            command = f"kubectl rollout restart deployment/transom-webhook -n {seen.namespace}"
            yield Seen(f"MutatingWebhookConfiguration/{REGISTRATION}", evidence, command)
    spaces = [one for one in seen.of("Namespace") if excluded(name_of(one), labels_of(one), seen.namespace) is None]
    if egress.selector is not None and spaces and not any(egress.selects(name_of(one), labels_of(one)) for one in spaces):
        evidence = f"spec.pods.namespaceSelector selects none of {_counted(len(spaces), 'Namespace')}"
        yield Seen(f"EgressProxy/{BASE}", evidence, "kubectl label namespace NAME KEY=VALUE, as the selector asks for")


_SELECT: Final = (
    f"kubectl patch egressproxy {BASE} --type=merge -p "
    '\'{"spec":{"pods":{"namespaceSelector":{"matchLabels":{"egress":"allowed"}}}}}\' '
    "&& kubectl label namespace NAME egress=allowed"
)


def _copied(kind: str, name: str, place: str, to: str, *, rename: bool = False) -> str:
    """The command that makes of an object its copy under another name, or in another namespace; `place` and `to` say which."""
    own = rf"s/^  name: {name}$/  name: {to}/;" if rename else ""
    edit = f"sed -E '{own}/^  (namespace|uid|resourceVersion|generation|creationTimestamp):/d'"
    source, target = f" -n {place}" if place else "", "" if rename else f" -n {to}"
    return f"kubectl get {kind} {name}{source} -o yaml | {edit} | kubectl apply{target} -f -"


def host_key_changed(seen: Observed) -> Iterator[Seen]:
    """A host shows another key than the one that it is known by."""
    for one in seen.own("WindowsInstance"):
        said = next((each for each in (condition(one, "Reachable"), condition(one, "Configured")) if _changed(each)), None)
        if said is not None:
            command = next_step("HostKeyChanged", name_of(one), seen.namespace)
            yield Seen(label_of("WindowsInstance", one), str(said.get("message")), command)


def _changed(said: Mapping[str, Any]) -> bool:
    return bool(said.get("reason") == "HostKeyChanged")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
