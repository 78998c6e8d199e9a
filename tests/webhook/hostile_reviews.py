"""Reviews as a stranger may send them, by name: all smaller than the server takes, and dear for one that trusts their shape."""

import json
from collections.abc import Callable
from typing import Any, Final

from tests.webhook.caller import of, reviewed

from transom.pods.pod_size import MAX_CONTAINERS
from transom.webhook.review import MAX_VALUES
from transom.webhook.server import MAX_BODY

Pod = dict[str, Any]
BuildPod = Callable[[int], Pod]
"""A pod whose list, or mapping, of one kind has that many items."""
BuildReview = Callable[[str], bytes]
"""The body of a review; `mark` makes it another one than the last."""

_SPEC_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")
_VOLUMES: Final = ("secret", "projected", "downwardAPI", "emptyDir")
_OVERRIDE: Final = {"annotations": {"transom.dev/inject-proxy": "override"}}
_WITH_CA: Final = {"labels": {"transom.dev/inject-ca": "true"}}
_MANY: Final = 1_000_000
"""More items of any kind than fit into a body."""


def build_pod(spec: Pod, **metadata: Any) -> Pod:
    """Return a pod with a container, unless `spec` has other ones."""
    return {"metadata": metadata, "spec": {"containers": [{"name": "app"}], **spec}}


def _container(**fields: Any) -> Pod:
    return {"containers": [{"name": "app", **fields}]}


def _affinity(term: Any) -> Pod:
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": term}}},
    }


def _names(count: int) -> dict[str, str]:
    return {f"a{number}": "" for number in range(count)}


LISTS: Final[dict[str, BuildPod]] = {
    **{
        f"{kind} {name}": lambda count, kind=kind, item=item: build_pod({kind: [item] * count})
        for kind in _SPEC_LISTS
        for name, item in (("without fields", {}), ("with one variable", {"name": "a", "env": [{"name": "HTTP_PROXY"}]}))
    },
    "named containers": lambda count: build_pod({"containers": [{"name": f"c{number}"} for number in range(count)]}),
    "containers with CAs": lambda count: build_pod({"containers": [{"name": "a"}] * count}, **_WITH_CA),
    "env": lambda count: build_pod(_container(env=[{}] * count)),
    "env of ours": lambda count: build_pod(_container(env=[{"name": "http_proxy"}] * count)),
    "env that is replaced": lambda count: build_pod(
        _container(env=[{"name": "HTTP_PROXY"}, {"name": "ALL_PROXY"}] * (count // 2)), **_OVERRIDE
    ),
    "env that is replaced on Windows": lambda count: build_pod(
        {
            **_container(env=[{"name": "HtTp_PrOxY"}, {"name": "aLL_pRoXy"}] * (count // 2)),
            "nodeSelector": {"kubernetes.io/os": "windows"},
        },
        **_OVERRIDE,
    ),
    "env that is replaced in each": lambda count: build_pod(
        {"containers": [{"name": "a", "env": [{"name": "HTTP_PROXY"}, {"name": "ALL_PROXY"}]}] * (count // 3)}, **_OVERRIDE
    ),
    "sources of env": lambda count: build_pod(_container(env=[{"name": "a", "valueFrom": [[]] * count}])),
    "envFrom": lambda count: build_pod(_container(envFrom=[{"prefix": "x"}] * count)),
    "mounts": lambda count: build_pod(_container(volumeMounts=[{}] * count), **_WITH_CA),
    "volumes": lambda count: build_pod({"volumes": [{}] * count}, **_WITH_CA),
    "items of a volume": lambda count: build_pod(
        {"volumes": [{"name": "a", **{kind: {"items": [{}] * (count // len(_VOLUMES))} for kind in _VOLUMES}}]}, **_WITH_CA
    ),
    "terms": lambda count: build_pod(_affinity([{}] * count)),
    "expressions": lambda count: build_pod(_affinity([{"matchExpressions": [{}] * count}])),
    "fields": lambda count: build_pod(_affinity([{"matchFields": [[]] * count}])),
    "values": lambda count: build_pod(_affinity([{"matchExpressions": [{"key": "a", "values": [""] * count}]}])),
    "owners": lambda count: build_pod({}, ownerReferences=[{}] * count),
    "labels": lambda count: build_pod({}, labels=_names(count)),
    "annotations": lambda count: build_pod({}, annotations=_names(count)),
    "node selector": lambda count: build_pod({"nodeSelector": _names(count)}),
    "excluded containers": lambda count: build_pod(
        {"containers": [{"name": f"c{number}"} for number in range(count // 2)]},
        annotations={"transom.dev/exclude-containers": ",".join(f"c{number}" for number in range(count // 2))},
    ),
}
"""Each list and mapping of the pod type, and what is done for an item of it."""


def fill_body(build: BuildPod, **request: Any) -> bytes:
    """Return the largest review that the server takes with such a pod."""
    body = of(reviewed(object=build(2_000), **request))
    small = of(reviewed(object=build(1_000), **request))
    count = min(_MANY, int((MAX_BODY - 20_000 - len(small)) / ((len(body) - len(small)) / 1_000)))
    while True:
        body = of(reviewed(object=build(count), **request))
        if len(body) < MAX_BODY:
            return body
        count = count * 9 // 10


def _replace(fragment: str, **request: Any) -> bytes:
    """Return a review whose text "HERE" is this fragment of JSON: some that no encoder writes."""
    return json.dumps(reviewed(**request)).replace('"HERE"', fragment).encode()


_LONG: Final = MAX_BODY - 10_000


REVIEWS: Final[dict[str, BuildReview]] = {
    **{f"many {name}": lambda mark, build=build: fill_body(build, uid=f"u{mark}") for name, build in LISTS.items()},
    **{
        f"{name} up to the bound": lambda mark, build=build: of(reviewed(uid=f"u{mark}", object=build(MAX_VALUES // 2 - 500)))
        for name, build in LISTS.items()
        if name in ("containers without fields", "env", "terms", "sources of env", "labels")
    },
    **{
        f"{name} that are patched": lambda mark, build=build: of(reviewed(uid=f"u{mark}", object=build(MAX_CONTAINERS)))
        for name, build in LISTS.items()
        if name in ("named containers", "containers with CAs", "env that is replaced", "env that is replaced in each")
    },
    "many containers in 0.7 MB": lambda mark: of(reviewed(uid=f"u{mark}", object=build_pod({"containers": [{}] * 250_000}))),
    "many old containers": lambda mark: of(
        reviewed(
            uid=f"u{mark}",
            operation="UPDATE",
            subResource="ephemeralcontainers",
            oldObject=build_pod({"ephemeralContainers": [{}] * 700_000}),
        )
    ),
    "long namespace": lambda mark: of(reviewed(namespace=mark + "n" * _LONG)),
    "namespace of 60 kB": lambda mark: of(reviewed(namespace=mark + "n" * 60_000)),
    "namespace of another length": lambda mark: of(reviewed(namespace=mark + "n" * (64 - len(mark)))),
    "namespace that is a path": lambda mark: of(
        reviewed(namespace=f"{mark}/../../../apis/apps/v1/namespaces/x/deployments?x=")
    ),
    "namespace with dots": lambda mark: of(reviewed(namespace="..")),
    "namespace of the pod": lambda mark: of(
        reviewed(namespace=None, object=build_pod({}, namespace=mark + "/../" + "n" * 60_000))
    ),
    "namespace nobody made": lambda mark: of(reviewed(namespace=f"x{mark}")),
    "long uid": lambda mark: of(reviewed(uid=mark + "u" * _LONG)),
    "long container name": lambda mark: of(reviewed(object=build_pod({"containers": [{"name": mark + "c" * _LONG}]}))),
    "long container name that keeps its proxy": lambda mark: of(
        reviewed(
            object=build_pod(
                {"containers": [{"name": mark + "c" * _LONG, "env": [{"name": "HTTP_PROXY", "value": "http://x"}]}]}
            )
        )
    ),
    "long variable name": lambda mark: of(reviewed(object=build_pod(_container(env=[{"name": mark + "ß" * (_LONG // 12)}])))),
    "long exclusion": lambda mark: of(
        reviewed(object=build_pod({}, annotations={"transom.dev/exclude-containers": mark + "a," * (_LONG // 2)}))
    ),
    "long unknown value": lambda mark: of(
        reviewed(object=build_pod({}, annotations={"transom.dev/inject-proxy": mark + "x" * _LONG}))
    ),
    "nothing but strings": lambda mark: b"[" + b'"",' * (_LONG // 3) + f'"{mark}"]'.encode(),
    "nothing but quotes": lambda mark: b"[" * 2_000 + b'""' * (_LONG // 2) + mark.encode(),
    "nothing but brackets": lambda mark: b"[" * _LONG + mark.encode(),
    "nothing but closed brackets": lambda mark: mark.encode() + b"[]" * (_LONG // 2),
    "deep below the bound": lambda mark: _replace('{"a":' * 100_000 + "1" + "}" * 100_000, uid=f"u{mark}", options="HERE"),
    "deep object": lambda mark: _replace("[" * (_LONG // 2) + "]" * (_LONG // 2), uid=f"u{mark}", object="HERE"),
    "escapes": lambda mark: _replace('"' + r"\\\"" * (_LONG // 4) + '"', uid=f"u{mark}", options="HERE"),
    "escapes and many containers": lambda mark: _replace(
        '"' + r"\"" * 100_000 + '"', uid=f"u{mark}", options="HERE", object=build_pod({"containers": [{}] * 500_000})
    ),
    "exponents": lambda mark: _replace("[" + "1e-400," * 180_000 + "1]", uid=f"u{mark}", options="HERE"),
    "an exponent of 3 MB": lambda mark: _replace("1e" + "9" * _LONG, uid=f"u{mark}", options="HERE"),
    "a letter of four bytes": lambda mark: of(
        reviewed(object=build_pod({"containers": [{"name": f"{mark}{'c' * _LONG}\U0001f600"}]}))
    ),
    "half a pair of surrogates": lambda mark: _replace(r'"\ud800"', uid=f"u{mark}", object=build_pod({"nodeName": "HERE"})),
    "the same field again and again": lambda mark: (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",'
        + b",".join(
            [b'"request":{"uid":"%b","kind":{"version":"v1","kind":"Pod"},"operation":"CREATE"}' % mark.encode()] * 30_000
        )
        + b"}"
    ),
    "namespace of full-width dots": lambda mark: of(reviewed(namespace=f"{mark}\uff0e\uff0e\uff0fapis")),
    "namespace with escapes": lambda mark: of(reviewed(namespace=f"{mark}%2e%2e%2fapis")),
    "namespace with a line end": lambda mark: of(reviewed(namespace=f"x{mark}\n")),
    "long operation": lambda mark: of(reviewed(operation=mark + "C" * _LONG)),
    "long kind": lambda mark: of(reviewed(kind={"group": mark + "g" * _LONG, "version": "v1", "kind": "Pod"})),
    "long path of a mount": lambda mark: of(
        reviewed(object=build_pod(_container(volumeMounts=[{"name": mark, "mountPath": "/../." * (_LONG // 6)}]), **_WITH_CA))
    ),
    "names that change with their case": lambda mark: of(
        reviewed(
            object=build_pod(
                {
                    **_container(env=[{"name": f"{mark}{number}" + "\ufb03" * 30_000} for number in range(15)]),
                    "nodeSelector": {"kubernetes.io/os": "windows"},
                },
                **_OVERRIDE,
            )
        )
    ),
    "digits": lambda mark: _replace("9" * _LONG, uid=f"u{mark}", options="HERE"),
}
"""What may come to the admission server from anybody who reaches it, each below `MAX_BODY`."""
