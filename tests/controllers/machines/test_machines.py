"""Templates, control planes and machines of workload clusters on a real API server: what is edited, when, and what never is."""

import asyncio
from typing import Any

import pytest
from tests.support.bundles import certificate
from tests.support.management import machines
from tests.support.management.management import MACHINES, TEMPLATES, Management
from tests.support.management.rollouts import (
    CONTROLLERS,
    SYSTEMD,
    WINDOWS,
    configuration,
    initialized,
    paths,
    put,
    rollout_after,
    status,
    until_edited,
)
from tests.support.waiting import PATIENCE

from transom.capi.bootstrap import windows_proxy
from transom.capi.bootstrap.machine_files import CA_STEM, DROP_INS, ENV_FILE, READ_ENV, RESTART, TRUST
from transom.controllers.machines import rollout as machine_rollout
from transom.kube.resources import EGRESS_PROXIES

pytestmark = pytest.mark.lab


async def settled(operator: Any) -> None:
    """Nothing to do in either controller for a moment, which is longer than they put things off."""
    await operator.settings.begun.wait()
    queues, quiet = [operator.controllers[name].queue for name in ("clusters", "machines")], 0
    async with asyncio.timeout(PATIENCE):
        while quiet < 12:
            await asyncio.sleep(0.1)
            quiet = 0 if any(len(queue) or queue.working for queue in queues) else quiet + 1


async def test_templates_that_ask_get_the_entries_and_nothing_else_is_touched(management: Management) -> None:
    await management.cluster()
    await management.bundle(certificate("one"))
    windows = machines.NPIPE | {"postKubeadmCommands": ["echo theirs"]}
    await put(
        management,
        machines.template(),
        machines.template("windows", windows, labels={}, annotations=machines.INJECT),
        machines.template("other", labels={}),
        machines.control_plane(),
    )
    await management.settings(trustedCA={"name": "corp-ca"}, consumers=["Nodes", "StaticPods"])
    async with management.operator(controllers=CONTROLLERS) as operator:
        await until_edited(management)
        await until_edited(management, name="windows")
        await until_edited(management, "KubeadmControlPlane", "mycluster")
        await settled(operator)
        worker = await configuration(management, "KubeadmConfigTemplate", "workers")
        assert [file["path"] for file in worker["files"]] == [*DROP_INS, f"{CA_STEM}.crt"]
        assert worker["preKubeadmCommands"] == [TRUST, RESTART, "echo theirs"]
        first = await configuration(management, "KubeadmControlPlane", "mycluster")
        assert [file["path"] for file in first["files"]] == [*DROP_INS, ENV_FILE, f"{CA_STEM}.crt"]
        assert first["preKubeadmCommands"] == [READ_ENV, TRUST, RESTART, "echo theirs"]
        pipe = await configuration(management, "KubeadmConfigTemplate", "windows")
        assert [file["path"] for file in pipe["files"]] == [windows_proxy.PROXY_REG, windows_proxy.PROXY_CMD]
        assert pipe["postKubeadmCommands"] == ["echo theirs", windows_proxy.AFTER_JOIN]
        assert "proxyReg" in (await management.data("Secret", WINDOWS) or {})
        assert await paths(management, name="other") == []
        held = await management.get("KubeadmConfigTemplate", "workers")
        assert held is not None
        assert held["metadata"]["generation"] == 2
        assert not any(key.startswith("transom") for key in held["metadata"].get("annotations", {}))


async def test_control_plane_that_stands_is_not_edited_without_automatic_rollout(management: Management) -> None:
    await management.cluster()
    await put(management, machines.control_plane(), machines.template())
    await initialized(management)
    await put(management, machines.machine("first", deployment=None))
    await management.settings()
    async with management.operator(controllers=CONTROLLERS) as operator:
        await until_edited(management)
        await settled(operator)
        assert await paths(management, "KubeadmControlPlane", "mycluster") == []
        _, _, message = await management.until_condition("MachinesOutdated", "Outdated")
        assert "1 machine of 1 cluster are older" in message
        assert "by hand" in message


async def test_machines_of_pools_are_counted_and_a_pool_without_any_is_not_judged(management: Management) -> None:
    await management.cluster()
    await put(management, *machines.pool("seen", "mycluster-systemd-proxy"), *machines.pool("other", "somebody-elses"))
    await management.settings(rollout="Automatic")
    for name in ("one", "two"):
        await put(management, machines.machine(name, pool="seen"))
    async with management.operator(controllers=CONTROLLERS) as operator:
        await management.until_data("Secret", "mycluster-systemd-proxy", "shell", "HTTP_PROXY")
        await asyncio.sleep(1.1)  # times of creation have seconds
        await management.settings("hunter2 new", rollout="Automatic")
        _, _, message = await management.until_condition("MachinesOutdated", "Outdated")
        assert message == (
            "2 machines of 1 cluster are older than their settings; "
            f"{management.org}/mycluster/seen: MachinePools, whose machines are not replaced from here"
        )
        for name in ("one", "two"):
            await management.client.delete(MACHINES, name, management.org)
        status_, _, message = await management.until_condition("MachinesOutdated", "UpToDate")
        assert status_ == "False"
        assert message.endswith(f"MachinePools without Machines, whose age is not known here: {management.org}/mycluster/seen")
        await settled(operator)
        # what a pool boots with stays as long as it is named, without a proxy
        await management.client.delete(EGRESS_PROXIES, "cluster")
        await management.until_data("Secret", "mycluster-systemd-proxy", "containerdProxy", "[Service]\n")
        await management.until_objects(("ConfigMap", "mycluster-cluster-values"), ("Secret", "mycluster-systemd-proxy"))
        assert not [write for write in management.writes() if write[1] in ("machinepools", "kubeadmconfigs")]


async def test_a_pool_with_nodes_is_edited_in_its_turn(management: Management) -> None:
    await management.cluster()
    await put(management, machines.control_plane(), *machines.pool("pool", None))
    await initialized(management)
    await status(management, "MachinePool", "pool", {"replicas": 2, "readyReplicas": 2, "nodeRefs": [{"name": "node"}]})
    for name in ("one", "two"):
        await put(management, machines.machine(name, pool="pool"))
    await management.settings()
    async with management.operator(controllers=CONTROLLERS):
        _, _, message = await management.until_condition("MachinesOutdated", "Outdated")
        assert message.endswith("1 cluster wait for a rollout by hand, or for spec.rollout: Automatic")
        assert await paths(management, "KubeadmConfig", "pool") == []
        await asyncio.sleep(1.1)  # times of creation have seconds
        await management.settings(rollout="Automatic")
        await until_edited(management, "KubeadmControlPlane", "mycluster")
        await until_edited(management, "KubeadmConfig", "pool")
        _, _, message = await management.until_condition("MachinesOutdated", "RollingOut")
        assert "2 machines of 1 cluster are older" in message
        await asyncio.sleep(1.1)
        for name in ("one", "two"):
            await management.client.delete(MACHINES, name, management.org)
            await put(management, machines.machine(f"new-{name}", pool="pool"))
        assert (await management.until_condition("MachinesOutdated", "UpToDate"))[0] == "False"
        # its label is taken off: what was put there goes, and nothing else
        await management.merge("KubeadmConfig", "pool", {"metadata": {"labels": {"transom.dev/inject": None}}}, management.org)
        # in its turn, too
        await management.until(lambda: left(management))


async def left(management: Management) -> bool:
    """Whether the pool has its own entries alone."""
    return await configuration(management, "KubeadmConfig", "pool") == {"preKubeadmCommands": ["echo theirs"]}


@pytest.mark.parametrize(
    ("label", "who"), [("topology.cluster.x-k8s.io/owned", "ClusterClass"), ("kustomize.toolkit.fluxcd.io/name", "Flux")]
)
async def test_what_a_source_of_its_own_writes_is_shown_and_not_edited(management: Management, label: str, who: str) -> None:
    owned = {label: "fleet"}
    await management.cluster()
    if who == "Flux":
        owned |= machines.INJECT
    else:
        # what a class makes is labelled by nobody: its Cluster asks
        await management.merge("Cluster", "mycluster", {"metadata": {"labels": machines.INJECT}}, management.org)
        topology = {"topology": {"classRef": {"name": "prod"}, "version": "v1.36.3"}}
        await management.merge("Cluster", "mycluster", {"spec": topology}, management.org)
    await put(management, machines.template(labels=owned), machines.control_plane(labels=owned))
    await management.settings()
    async with management.operator(controllers=CONTROLLERS) as operator:
        _, _, message = await management.until_condition("MachinesOutdated", "CommitNeeded")
        await settled(operator)
        assert f"({who})" in message
        # the operator does not know which version of a template a class refers to
        assert ("containerdProxy" in message) == (who == "Flux")
        assert ("--machine-templates cluster-class" in message) == (who == "ClusterClass")
        assert "hunter2" not in message
        for kind, name in (("KubeadmConfigTemplate", "workers"), ("KubeadmControlPlane", "mycluster")):
            assert await paths(management, kind, name) == []


async def test_edit_that_is_taken_back_is_a_conflict_and_not_repeated(management: Management) -> None:
    await management.cluster()
    await put(management, machines.template())
    await management.settings()
    async with management.operator(controllers=CONTROLLERS) as operator:
        await until_edited(management)
        value = {"spec": {"template": {"spec": {"preKubeadmCommands": ["echo theirs"], "files": None}}}}
        await management.merge("KubeadmConfigTemplate", "workers", value, management.org)
        _, _, message = await management.until_condition("Conflict", "Conflict")
        assert "the entries were removed" in message
        await settled(operator)
        assert await paths(management) == []
    async with management.operator(controllers=CONTROLLERS) as operator:
        await settled(operator)
        assert await paths(management) == []


async def test_file_of_somebody_else_is_a_conflict(management: Management) -> None:
    theirs = {"files": [{"path": DROP_INS[0], "content": "[Service]\n"}]}
    await management.cluster()
    await put(management, machines.template(spec=theirs))
    await management.settings()
    async with management.operator(controllers=CONTROLLERS) as operator:
        _, _, message = await management.until_condition("Conflict", "Conflict")
        assert DROP_INS[0] in message
        await settled(operator)
        assert await configuration(management, "KubeadmConfigTemplate", "workers") == theirs


async def test_template_of_two_clusters_is_left_alone(management: Management) -> None:
    await management.cluster()
    await management.cluster("other")
    await put(management, machines.template(), machines.deployment(), machines.deployment("theirs", "other"))
    value = {"spec": {"template": {"spec": {"bootstrap": {"configRef": {"name": "workers"}}}}}}
    await management.merge("MachineDeployment", "theirs", value, management.org)
    await management.settings()
    async with management.operator(controllers=CONTROLLERS) as operator:
        _, _, message = await management.until_condition("Conflict", "Conflict")
        assert "several clusters" in message
        await settled(operator)
        assert await paths(management) == []


async def test_settings_removed_take_entries_out_first_and_the_secret_goes_last(management: Management) -> None:
    await management.cluster()
    await management.bundle(certificate("one"))
    await put(management, machines.template())
    await management.settings(trustedCA={"name": "corp-ca"})
    async with management.operator(controllers=CONTROLLERS) as operator:
        await until_edited(management)
        await settled(operator)
        since = management.control_plane.get_moment()
        await management.client.delete(EGRESS_PROXIES, "cluster")
        await management.until_objects()
        assert await configuration(management, "KubeadmConfigTemplate", "workers") == {"preKubeadmCommands": ["echo theirs"]}
        writes = [(verb, resource) for verb, resource, name in management.writes(since) if name in ("workers", SYSTEMD)]
        assert writes.index(("patch", "kubeadmconfigtemplates")) < writes.index(("delete", "secrets"))


async def test_control_plane_that_may_not_be_edited_keeps_an_emptied_secret(management: Management) -> None:
    await management.cluster()
    await put(management, machines.control_plane())
    await management.settings()
    async with management.operator(controllers=CONTROLLERS):
        await until_edited(management, "KubeadmControlPlane", "mycluster")
        await initialized(management)
        await management.client.delete(EGRESS_PROXIES, "cluster")

        async def emptied() -> bool:
            return await management.data("Secret", SYSTEMD) == {"containerdProxy": "[Service]\n", "env": "", "shell": ""}

        await management.until(emptied)
        assert await paths(management, "KubeadmControlPlane", "mycluster") == list(DROP_INS)


async def test_paused_cluster_is_left_alone_until_it_goes_on(management: Management) -> None:
    await management.cluster()
    await management.merge("Cluster", "mycluster", {"spec": {"paused": True}}, management.org)
    await put(management, machines.template())
    await management.settings()
    async with management.operator(controllers=CONTROLLERS) as operator:
        await settled(operator)
        assert await paths(management) == []
        await management.merge("Cluster", "mycluster", {"spec": {"paused": None}}, management.org)
        await until_edited(management)


async def test_label_that_is_taken_away_takes_the_entries_along(management: Management) -> None:
    await management.cluster()
    await put(management, machines.template())
    await management.settings()
    async with management.operator(controllers=CONTROLLERS):
        await until_edited(management)
        value = {"metadata": {"labels": {"transom.dev/inject": None}}}
        await management.merge("KubeadmConfigTemplate", "workers", value, management.org)

        async def gone() -> bool:
            return await configuration(management, "KubeadmConfigTemplate", "workers") == {
                "preKubeadmCommands": ["echo theirs"]
            }

        await management.until(gone)


POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "nobody-rolls-alpha"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["cluster.x-k8s.io"],
                    "apiVersions": ["*"],
                    "operations": ["UPDATE"],
                    "resources": ["machinedeployments"],
                }
            ]
        },
        "validations": [{"expression": "object.metadata.name != 'alpha'", "message": "alpha is frozen"}],
    },
}
BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "nobody-rolls-alpha"},
    "spec": {"policyName": "nobody-rolls-alpha", "validationActions": ["Deny"]},
}


async def with_one_worker(management: Management, *names: str) -> None:
    """Clusters with a MachineDeployment of one Machine each, which is older than whatever comes."""
    for name in names:
        await management.cluster(name)
        await put(management, machines.template(name, cluster=name), machines.deployment(name, name, 1))
        await status(management, "MachineDeployment", name, {"replicas": 1, "readyReplicas": 1})
        await put(management, machines.machine(f"{name}-old", name, name))
    await asyncio.sleep(1.1)


async def test_rollout_that_the_server_refuses_is_told_and_keeps_nobody_waiting(management: Management) -> None:
    await with_one_worker(management, "alpha", "beta")
    plane = management.control_plane
    await asyncio.to_thread(plane.apply, [POLICY, BINDING])

    async def frozen() -> bool:
        what = ("machinedeployment", "alpha", "-n", management.org, "--type=merge", "--dry-run=server", "-p", '{"spec": {}}')
        return not await asyncio.to_thread(plane.run_kubectl, "patch", *what, check=False)

    try:
        await management.until(frozen)
        await management.settings(rollout="Automatic")
        async with management.operator(controllers=CONTROLLERS):

            async def begun() -> str | None:
                return await rollout_after(management, "beta")

            await management.until(begun)
            _, _, message = await management.until_condition("MachinesOutdated", "Refused")
            assert "alpha is frozen" in message
            assert await rollout_after(management, "alpha") is None
    finally:
        for item in (BINDING, POLICY):
            await asyncio.to_thread(plane.run_kubectl, "delete", item["kind"], item["metadata"]["name"])


async def replace_machine(management: Management, old: str, new: str, deployment: str | None, cluster: str) -> None:
    """What Cluster API's controllers would do."""
    await management.client.delete(MACHINES, old, management.org)
    await put(management, machines.machine(new, cluster, deployment))


async def test_rollout_takes_one_cluster_after_the_other_and_goes_on_after_a_restart(management: Management) -> None:
    names = ("alpha", "beta")
    for name in names:
        await management.cluster(name)
        await put(management, machines.template(name, cluster=name), machines.deployment(name, name, 1))
        await status(management, "MachineDeployment", name, {"replicas": 1, "readyReplicas": 1})
        await put(management, machines.machine(f"{name}-old", name, name))
    await asyncio.sleep(1.1)  # the server's times are whole seconds: these machines are older than what follows
    await management.settings()
    async with management.operator(controllers=CONTROLLERS) as operator:
        await management.until_condition("MachinesOutdated", "Outdated")
        await settled(operator)
        assert [await rollout_after(management, name) for name in names] == [None, None]
        _, _, message = (await management.conditions())["MachinesOutdated"]
        assert "2 machines of 2 clusters" in message
        await management.merge("EgressProxy", "cluster", {"spec": {"rollout": "Automatic"}})

        async def begun() -> str | None:
            return await rollout_after(management, "alpha")

        first = await management.until(begun)
        await management.until_condition("MachinesOutdated", "RollingOut")
        await settled(operator)
        assert await rollout_after(management, "beta") is None
    async with management.operator(controllers=CONTROLLERS) as operator:
        await settled(operator)
        assert await rollout_after(management, "alpha") == first
        assert await rollout_after(management, "beta") is None
        await status(management, "MachineDeployment", "alpha", {"readyReplicas": 0})
        await replace_machine(management, "alpha-old", "alpha-new", "alpha", "alpha")
        await settled(operator)
        assert await rollout_after(management, "beta") is None
        await status(management, "MachineDeployment", "alpha", {"readyReplicas": 1})

        async def next_begun() -> str | None:
            return await rollout_after(management, "beta")

        await management.until(next_begun)
        await replace_machine(management, "beta-old", "beta-new", "beta", "beta")
        await management.until_condition("MachinesOutdated", "UpToDate")
        assert await rollout_after(management, "alpha") == first


async def test_control_plane_is_rolled_by_its_edit_before_the_workers(management: Management) -> None:
    await management.cluster()
    await put(management, machines.control_plane(), machines.template(), machines.deployment(replicas=1))
    await initialized(management)
    await status(management, "MachineDeployment", "workers", {"replicas": 1, "readyReplicas": 1})
    await put(management, machines.machine("first", deployment=None), machines.machine("worker"))
    await asyncio.sleep(1.1)
    await management.settings(rollout="Automatic")
    async with management.operator(controllers=CONTROLLERS) as operator:
        await until_edited(management, "KubeadmControlPlane", "mycluster")
        await settled(operator)
        assert await rollout_after(management, "workers") is None
        await asyncio.sleep(1.1)
        await replace_machine(management, "first", "second", None, "mycluster")

        async def begun() -> str | None:
            return await rollout_after(management, "workers")

        await management.until(begun)
        held = await management.get("KubeadmControlPlane", "mycluster")
        assert held is not None
        # the edit, and the time of it
        assert held["metadata"]["generation"] == 3


async def test_cluster_that_does_not_come_back_stops_the_rollout(
    management: Management, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_rollout, "PATIENCE", 2.0)
    await with_one_worker(management, "alpha", "beta")
    await management.settings(rollout="Automatic")
    async with management.operator(controllers=CONTROLLERS):

        async def begun() -> str | None:
            return await rollout_after(management, "alpha")

        await management.until(begun)
        await status(management, "MachineDeployment", "alpha", {"readyReplicas": 0})

        async def halted() -> bool:
            told = (await management.conditions()).get("RolloutHalted", ("", "", ""))
            # it may have been stuck for a while before its machine was lost
            return told[:2] == ("True", "NotHealthy") and "MachineDeployment alpha has 0 of 1 machines ready" in told[2]

        await management.until(halted)
        assert await rollout_after(management, "beta") is None


async def test_no_settings_is_no_edit(management: Management) -> None:
    await management.cluster()
    await put(management, machines.template(), machines.control_plane())
    async with management.operator(controllers=CONTROLLERS) as operator:
        await settled(operator)
        assert management.writes() == []
        held = (await management.client.list_objects(TEMPLATES, management.org)).items
        assert [item.metadata.generation for item in held] == [1]


async def test_bundle_of_a_cluster_is_not_taken_for_one_that_lost_its_label(management: Management) -> None:
    await management.cluster()
    await management.bundle(certificate("one"))
    await management.settings(trustedCA={"name": "corp-ca"})
    async with management.operator(controllers=CONTROLLERS) as operator:
        await settled(operator)
    since = management.control_plane.get_moment()
    async with management.operator(controllers=CONTROLLERS) as operator:
        await settled(operator)
        assert management.writes(since) == []
