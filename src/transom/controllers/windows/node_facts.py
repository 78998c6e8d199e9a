"""What a host that is to be a node is told of its cluster, and the token by which it joins."""

import base64
import contextlib

from transom.controllers.kept import HeldInstance
from transom.controllers.term import Term
from transom.controllers.windows.case import Case, regarding_of
from transom.controllers.windows.cluster_facts import ClusterFacts
from transom.controllers.windows.marks import HOST_NAME
from transom.controllers.windows.members import Members
from transom.kube.errors import NotFound
from transom.kube.resources import NODES
from transom.proxy.secret import Secret
from transom.windows.payload import BOOTSTRAP_KUBECONFIG, KUBELET_CA
from transom.windows.worker import Facts


class NodeFacts:
    """Made anew for each pass: a token lasts an hour, and a Node that is Ready needs none."""

    def __init__(self, members: Members, cluster: ClusterFacts) -> None:
        self._members, self._cluster = members, cluster

    async def of(self, case: Case, term: Term) -> Facts:
        """What is known of the host's node and its cluster. Makes a bootstrap token where the host has to join."""
        assert case.instance is not None  # an instance that cannot be read is refused
        node = case.node
        provided: dict[str, Secret | None] = {}
        if (authority := self._cluster.client_ca()) is not None:
            provided[KUBELET_CA] = authority
        if node is not None and node.is_ready:
            await self._members.tokens.forget(case.held, term)
            provided[BOOTSTRAP_KUBECONFIG] = None
        else:
            provided[BOOTSTRAP_KUBECONFIG] = self._cluster.kubeconfig(await self._token(case.held, term))
        mirrored = await self._cluster.mirrors(term.client)
        for problem in mirrored.problems:
            term.recorder.warning(regarding_of(case.held), "MirrorNotSet", problem)
        whole = None
        if node is not None:
            with contextlib.suppress(NotFound):
                whole = await term.client.get_json(NODES.path(None, node.metadata.name))
        return Facts(
            node_name=case.instance.spec.node_name or "",
            rename=HOST_NAME in (case.held.metadata.annotations or {}),
            network=self._cluster.network,
            platform=self._cluster.platform,
            variables=self._cluster.variables(),
            node=whole,
            provided=provided,
            mirrors=mirrored.mirrors,
        )

    async def _token(self, held: HeldInstance, term: Term) -> Secret:
        openshift = self._members.openshift_token
        if openshift is not None:
            encoded = (openshift.value.get("data") or {}).get("token", "")
            return Secret(base64.b64decode(encoded).decode())
        return (await self._members.tokens.ensure(held, term)).text
