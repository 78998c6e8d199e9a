"""Objects of an API server, by requests: kubectl is 0.06 s of CPU to start, and reads every schema before it applies, 0.2 s."""

from __future__ import annotations

import json
import time
import urllib.error
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Any

from lab.kubernetes import ControlPlaneError

MANAGER = "lab"
"""The field manager of what is applied."""
APPLY = "application/apply-patch+yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SECONDS = 60


class Objects:
    """What `kubectl apply`, `wait` and `delete` do, as the administrator."""

    def __init__(self, request: Callable[..., bytes]) -> None:
        """`request` is `ControlPlane.request`."""
        self._request = request
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}

    def apply(self, objects: Sequence[dict[str, Any]]) -> None:
        """By server-side apply, in their order; who had a field loses it. Raises ControlPlaneError."""
        for value in objects:
            path = f"{self.build_path(value)}/{value['metadata']['name']}?fieldManager={MANAGER}&force=true"
            self._patch(path, value)

    def delete(self, objects: Sequence[dict[str, Any]]) -> None:
        """Delete those that are there; nothing is waited for. Raises ControlPlaneError."""
        for value in objects:
            self._try("DELETE", f"{self.build_path(value)}/{value['metadata']['name']}")

    def wait_served(self, definitions: Sequence[dict[str, Any]]) -> None:
        """Wait until the server serves the kinds of these, or of all CustomResourceDefinitions that it has."""
        for definition in definitions or json.loads(self._request("GET", DEFINITIONS))["items"]:
            self._wait_established(definition["metadata"]["name"])
            self.wait_listed([definition])

    def wait_listed(self, definitions: Sequence[dict[str, Any]]) -> None:
        """Wait until the server lists the kinds of definitions that it has had since it started."""
        for definition in definitions:
            for _ in _iter_attempts(f"{definition['metadata']['name']} is not served"):
                # a request for the kind itself would cost its storage
                if all(self._check_listed(definition)):
                    break

    def wait_readable(self, definitions: Sequence[dict[str, Any]]) -> None:
        """Wait until the server reads the objects of these kinds; a definition that is not there is left out.

        Who deletes a definition before can wait 5 minutes for its end: the server's finalizer is the first that reads the
        objects then, and fails while their storage begins; where its second try, 5 ms later, does not see what the first
        one wrote, it waits for a change that it passes over (apiextensions-apiserver v0.36.3, pkg/controller/finalizer).
        """
        for definition in definitions:
            spec = definition["spec"]
            (stored,) = (version["name"] for version in spec["versions"] if version["storage"])
            self._try("GET", f"/apis/{spec['group']}/{stored}/{spec['names']['plural']}?limit=1")

    def forget(self, definitions: Sequence[dict[str, Any]]) -> None:
        """Take definitions away, with every object of theirs, and wait until no kind of theirs is served."""
        self.wait_readable(definitions)
        for definition in definitions:
            self._try("DELETE", _build_path(definition))
        for item in definitions:
            for _ in _iter_attempts(f"{item['metadata']['name']} is still there"):
                if self._try("GET", _build_path(item)) is None and not any(self._check_listed(item)):
                    break

    def _check_listed(self, definition: dict[str, Any]) -> list[bool]:
        """Return for each served version, True if the server lists the kind."""
        spec = definition["spec"]
        versions = [f"/apis/{spec['group']}/{version['name']}" for version in spec["versions"] if version["served"]]
        return [spec["names"]["plural"] in (item["name"] for item in self._list(version)) for version in versions]

    def _list(self, version: str) -> list[dict[str, Any]]:
        """Return the resources of a group version, by its path; empty if the server does not have it."""
        answer = self._try("GET", version)
        return json.loads(answer)["resources"] if answer else []

    def _wait_established(self, name: str) -> None:
        for _ in _iter_attempts(f"{name} is not established"):
            definition = json.loads(self._request("GET", f"{DEFINITIONS}/{name}"))
            # both are null at first
            conditions = (definition.get("status") or {}).get("conditions") or ()
            if any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions):
                return

    def _patch(self, path: str, value: dict[str, Any]) -> None:
        for _ in _iter_attempts(f"{path} is not served"):
            try:
                self._request("PATCH", path, value, content_type=APPLY)
            except urllib.error.HTTPError as error:
                answer = error.read()
                # a kind that is listed may not be served yet: then the answer is a text; of what is missing it is a Status
                if error.code != HTTPStatus.NOT_FOUND or answer.startswith(b"{"):
                    raise ControlPlaneError(f"PATCH {path}: {_parse_message(answer)}") from error
            else:
                return

    def _try(self, method: str, path: str) -> bytes | None:
        try:
            return self._request(method, path)
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise ControlPlaneError(f"{method} {path}: {_parse_message(error.read())}") from error
            return None

    def build_path(self, value: dict[str, Any]) -> str:
        """Return the path of an object's collection. Raises ControlPlaneError."""
        version, kind = value["apiVersion"], value["kind"]
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for _ in _iter_attempts(f"{version} {kind} is not served"):
            if (version, kind) in self._resources:
                break
            for item in self._list(base):
                if "/" not in item["name"]:
                    self._resources[version, item["kind"]] = item["name"], item["namespaced"]
        name, namespaced = self._resources[version, kind]
        return f"{base}/namespaces/{value['metadata'].get('namespace', 'default')}/{name}" if namespaced else f"{base}/{name}"


def _iter_attempts(otherwise: str) -> Iterator[None]:
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        yield
        time.sleep(0.05)
    raise ControlPlaneError(f"{otherwise} after {_SECONDS} s")


def _build_path(definition: dict[str, Any]) -> str:
    return f"{DEFINITIONS}/{definition['metadata']['name']}"


def _parse_message(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError):
        return answer.decode(errors="replace")
