"""Image registries as a cluster's objects have them: mirrors, logins, CAs."""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from transom.common.mappings import get_nested_value
from transom.controllers.runtime.informers import Informers
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS, OPENSHIFT_PROXIES, SECRETS, Resource
from transom.kube.store import Store
from transom.proxy.layers import OPENSHIFT_CONFIG, OPENSHIFT_MANAGED
from transom.proxy.secret import Secret
from transom.windows.payload import pull_secret
from transom.windows.payload.mirror_sets import Registries, build_registries, read_authorities

MIRROR_SETS: Final = tuple(
    Resource("config.openshift.io", "v1", kind, f"{kind.lower()}s", False, UnstructuredObject)
    for kind in ("ImageDigestMirrorSet", "ImageTagMirrorSet")
)
IMAGES: Final = Resource("config.openshift.io", "v1", "Image", "images", False, UnstructuredObject)
CONTROLLER_CONFIGS: Final = Resource(
    "machineconfiguration.openshift.io", "v1", "ControllerConfig", "controllerconfigs", False, UnstructuredObject
)
REGISTRY_CAS: Final = "transom-registry-cas"
"""The ConfigMap in Transom's namespace with a PEM text for each registry."""
_PULL_SECRET: Final = "pull-secret"  # noqa: S105  # a name
_INTERNAL: Final = "image-registry-ca"
"""The CA of OpenShift's own registry (cluster-image-registry-operator, pkg/resource/generatorimageregistryca.go)."""
_BUNDLES: Final = ("imageRegistryBundleUserData", "imageRegistryBundleData")
"""What the Machine Config Operator gives to Linux nodes (openshift/api, machineconfiguration/v1, ControllerConfigSpec)."""


class ClusterRegistries:
    """Reads the stores when it is asked."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._sets = [informers.watch(kind) for kind in MIRROR_SETS]
        self._images = informers.watch(IMAGES)
        self._configs = informers.watch(CONTROLLER_CONFIGS)
        self._pull_secret = informers.watch(
            SECRETS, OPENSHIFT_CONFIG, f"metadata.name={_PULL_SECRET}", optional=True, granted_with=OPENSHIFT_PROXIES.group
        )
        self._trusted = informers.watch(CONFIG_MAPS, OPENSHIFT_CONFIG)
        self._internal = informers.watch(CONFIG_MAPS, OPENSHIFT_MANAGED, f"metadata.name={_INTERNAL}")

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` when something that is read here is another."""
        stores: list[Store[UnstructuredObject]] = [*self._sets, self._images, self._pull_secret, self._internal]
        for store in stores:
            store.subscribe(lambda *_: on_change())
        # the Machine Config Operator writes conditions into its status all the time
        self._configs.subscribe(lambda _, before, after: on_change() if _list_bundles(before) != _list_bundles(after) else None)
        self._trusted.subscribe(lambda name, *_: on_change() if name.name == self._additional_ca_name else None)
        self._informers.config_maps.subscribe(lambda name, *_: on_change() if name.name == REGISTRY_CAS else None)

    def read(self) -> Registries:
        """Return the registries and the problems in the objects."""
        authorities, problems = read_authorities(self._iter_bundles())
        logins = pull_secret.parse_logins(self._read_logins())
        cluster_registries = build_registries(
            [cached.value for store in self._sets for cached in store.take_snapshot()], logins, authorities
        )
        return Registries(cluster_registries.registries, (*problems, *cluster_registries.problems))

    def _read_logins(self) -> Secret | None:
        cached = self._pull_secret.take_snapshot().find_named(_PULL_SECRET, OPENSHIFT_CONFIG)
        encoded = get_nested_value(cached.value, "data", ".dockerconfigjson") if cached is not None else None
        return _decode_secret(encoded) if isinstance(encoded, str) else None

    @property
    def _additional_ca_name(self) -> str | None:
        """The name of the ConfigMap with the CAs that people gave."""
        cached = self._images.take_snapshot().find_named("cluster")
        name = get_nested_value(cached.value, "spec", "additionalTrustedCA", "name") if cached is not None else None
        return name if isinstance(name, str) else None

    def _iter_bundles(self) -> Iterator[tuple[str, str, str]]:
        """Iterate over CA bundles: the object, its key and the text."""
        bundles = [bundle for cached in self._configs.take_snapshot() for bundle in _list_bundles(cached)]
        if bundles:
            yield from (("ControllerConfig", file, text) for file, text in bundles)
        else:
            if (name := self._additional_ca_name) is not None:
                yield from _iter_data(self._trusted, name, OPENSHIFT_CONFIG)
            yield from _iter_data(self._internal, _INTERNAL, OPENSHIFT_MANAGED)
        yield from _iter_data(self._informers.config_maps, REGISTRY_CAS, self._informers.namespace)


def _iter_data(store: Store[UnstructuredObject], name: str, namespace: str) -> Iterator[tuple[str, str, str]]:
    cached = store.take_snapshot().find_named(name, namespace)
    data = get_nested_value(cached.value, "data") if cached is not None else None
    for key, text in (data or {}).items() if isinstance(data, Mapping) else ():
        yield f"ConfigMap {namespace}/{name}", str(key), str(text)


def _list_bundles(cached: UnstructuredObject | None) -> tuple[tuple[str, str], ...]:
    """Return file and text of each bundle of a ControllerConfig."""
    bundles = []
    for field in _BUNDLES:
        listed = get_nested_value(cached.value, "spec", field) if cached is not None else None
        for item in listed if isinstance(listed, list) else ():
            file, data = get_nested_value(item, "file"), get_nested_value(item, "data")
            if isinstance(file, str) and isinstance(data, str) and (text := _decode_secret(data)) is not None:
                bundles.append((file, text.reveal()))
    return tuple(bundles)


def _decode_secret(text: str) -> Secret | None:
    try:
        return Secret(base64.b64decode(text, validate=True).decode("utf-8", "replace"))
    except (ValueError, binascii.Error):
        return None
