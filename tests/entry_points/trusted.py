"""Places where bytes come in that need no row: what is read there is Transom's own, or the word of who started it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_PACKAGE: Final = "a file of Transom's own package"
_STATE: Final = "a file that Transom wrote below the person's own directory, as that person alone may"
_PERSON: Final = "the person who runs the command chooses it, and it is read up to 64 MiB"
_KUBECONFIG: Final = "the person's own kubeconfig, or the pod's: who writes it may run programs by it"
_COMMAND: Final = "a list that a person's command asks for once; a page of it has 24 MiB at most"
_ONE: Final = "one object, by its name"
_OUT: Final = "bytes go out here, and none come in"
_SERVER: Final = "the way to the cluster's own API server; what comes has rows of its own"
_COVERED: Final = "what all rows of files read through"

TRUSTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "capi/bootstrap/machine_files.py _read_script()": _PACKAGE,
        "capi/image/files/transom_boothook.py BoothookPlugin.process()": "runs on a machine that boots, on its own user data",
        "capi/image/files/transom_boothook.py _read_connection()": "runs on a machine that boots, on a file of its image",
        "capi/image/image_recipe.py _read_file()": _PACKAGE,
        "capi/worker/file_content.py _to_windows_script()": _PACKAGE,
        "cli/bundle.py _write_archive()": _OUT,
        "cli/capi_inputs.py compute_hashes()": "files of any size are hashed in pieces",
        "cli/checks.py _check_report_file()": _PERSON,
        "cli/checks.py update_file()": _PERSON,
        "cli/cluster.py run_with_client()": _SERVER,
        "cli/commands/demo.py _Demo.run()": _PACKAGE,
        "cli/commands/init.py _add_simulated_host()": "finds a free port, and nobody is answered",
        "cli/commands/init.py _write_manifests()": _PERSON,
        "cli/commands/manifests.py _refuse_second_install()": _SERVER,
        "cli/commands/no_proxy.py _read_lines()": _PERSON,
        "cli/commands/payload.py _has_same_content()": "files of any size are compared in pieces",
        "cli/commands/payload.py _refuse_manifests()": "files of the directory that the user writes to, of limited size",
        "cli/commands/payload.py build()": "a payload is what the administrator has run on nodes",
        "cli/commands/run.py run()": _SERVER,
        "cli/commands/simulate.py _start_detached()": "Transom itself, started once more",
        "cli/commands/simulate.py _run_simulator()": _STATE,
        "cli/commands/simulate.py _find_detached()": _STATE,
        "cli/commands/webhook.py webhook()": _SERVER,
        "cli/completion.py _query_cluster()": _SERVER,
        "cli/init_answers.py _prompt_until_valid()": _PERSON,
        "cli/host_records.py HostRecords.read_record()": _STATE,
        "cli/output_files.py _is_replaceable()": _STATE,
        "cli/output_files.py _read_record()": _STATE,
        "cli/output_files.py replace_file()": _OUT,
        "cli/program.py run()": _OUT,
        "cli/state.py HealthySettingsStore._write_settings()": _OUT,
        "cli/state.py HealthySettingsStore.read_settings()": _STATE,
        "common/regular_files.py open_regular_file()": _COVERED,
        "common/revision.py read_revision()": _PACKAGE,
        "controllers/clusters/adoption.py find_peer_objects()": _COMMAND,
        "controllers/clusters/adoption.py find_public_clusters()": _COMMAND,
        "controllers/clusters/bootstrap.py write_cluster_objects()": _COMMAND,
        "controllers/clusters/referenced_objects.py _list_if_served()": _COMMAND,
        "controllers/hosts/status_writer.py _read_latest()": _ONE,
        "controllers/instance_state/node_identities.py NodeIdentities._is_machine()": "names of Machines alone, of one name",
        "controllers/inventory/adoption.py _Takeover._list_openshift_machines()": _COMMAND,
        "controllers/inventory/adoption.py _Takeover.run()": _COMMAND,
        "controllers/join/credential_providers.py _decode_data_url()": "an administrator's MachineConfig, up to 1 MiB",
        "controllers/nodes/payload_source.py PayloadSource.open()": "a payload is what the administrator has run on nodes",
        "controllers/rollout/heartbeats.py Heartbeats.wait_for_newer()": _ONE,
        "controllers/rollout/in_flight_hosts.py InFlightHosts._read_again()": _ONE,
        "controllers/runtime/hash_key.py HashKey._create_key()": _ONE,
        "hosts/owner.py build_user_owner()": _STATE,
        "hosts/scripts/template.py read_template()": _PACKAGE,
        "hosts/ssh/ssh_config.py _Reader.parse()": "the person's own `~/.ssh/config`, which may run programs by itself",
        "hosts/ssh/ssh_config.py _refuse_special_identity_files()": _COVERED,
        "hosts/steps/payload_directory.py PayloadDirectory.open()": "a payload is what the administrator has run on nodes",
        "hosts/steps/payload_directory.py _hash_file()": "files of any size are hashed in pieces",
        "hosts/steps/payload_directory.py read_lock_file()": "a payload is what the administrator has run on nodes",
        "hosts/steps/payload_directory.py read_resolved_payload()": "a payload is what the administrator has run on nodes",
        "kube/credentials.py PluginCredentials._run()": _KUBECONFIG,
        "kube/credentials.py _FileToken.get()": _KUBECONFIG,
        "kube/credentials.py _read_token()": _KUBECONFIG,
        "kube/credentials.py build_exec_cluster()": _KUBECONFIG,
        "kube/kubeconfig.py _read_service_account()": _KUBECONFIG,
        "kube/kubeconfig.py _read_kubeconfig_file()": _KUBECONFIG,
        "kube/reflector.py Reflector._list()": "the kinds have rows of their own",
        "kube/tls.py _open_memory_file()": _KUBECONFIG,
        "kube/tls.py _read_data_or_file()": _KUBECONFIG,
        "manifests/install.py": _PACKAGE,
        "oci/image_layout.py Layout.link_layer()": "a layout that the administrator builds on",
        "oci/image_layout.py Layout.write_layer()": _OUT,
        "oci/image_layout.py _add()": _OUT,
        "oci/image_layout.py read_image()": "a layout that the administrator builds on",
        "payloads/shipped_payloads.py _read_text()": _PACKAGE,
        "payloads/shipped_payloads.py build_openshift_payload()": _PACKAGE,
        "pods/namespace_services.py _read_top_level_domains()": _PACKAGE,
        "sources/api_server.py _list_values()": _COMMAND,
        "sources/api_server.py _list_machines()": _COMMAND,
        "sources/api_server.py list_outdated_pods()": _COMMAND,
        "verification/cluster_verification.py _ClusterVerification._read_state()": _COMMAND,
        "verification/cluster_verification.py _list_namespaces()": _COMMAND,
        "verification/cluster_verification.py _list_nodes()": _COMMAND,
        "webhook/renewal.py main()": "Transom itself, started once more",
        "webhook/renewal.py renew_certificates()": "Transom itself, started once more",
        "webhook/server.py ServingContext.show()": _OUT,
    }
)
"""By a place as `find_doors` names it, the reason."""
