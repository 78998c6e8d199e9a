"""The errors of one host: the classes of HostError, whose names are reasons of its conditions."""

from typing import Final

from transom.reasons.reason import Reason, define_error

_AGAIN: Final = "Transom retries with increasing delays"
_HOST_KEY: Final = "Set `spec.hostKey` to the line of the host's `ssh_host_ed25519_key.pub`"
_SSHD_CONFIG: Final = r"C:\ProgramData\ssh\sshd_config"
_REPORT: Final = "Report it, with the file from `transom doctor --bundle transom.tar.gz --facts`"

ERRORS: Final[tuple[Reason, ...]] = (
    define_error("AdoptedNodeFound", "itself", "After connecting, Transom found that the host is a Node of another operator."),
    define_error(
        "ApiServerUnknown",
        "after",
        "Transom does not know the address by which hosts reach the API server, and cannot add it to NO_PROXY.",
        "Set `spec.networks.internalAPIHost` of `EgressProxy/cluster`, or publish ConfigMap `kube-public/cluster-info`",
    ),
    define_error(
        "AuthenticationRefused",
        "after",
        "The host answers, but accepts none of the keys for this user.",
        "Add the public key of `spec.keySecret` to `administrators_authorized_keys` of the host, or correct `spec.username`",
    ),
    define_error("ConnectionLost", "itself", f"The connection ended or stalled during a pass. {_AGAIN}."),
    define_error(
        "FilesInUse",
        "after",
        "A program, most likely a virus scanner, holds files that Transom has just written. Transom changed nothing.",
        r"Exclude `C:\Windows\Transom` from the virus scanner of the host",
    ),
    define_error(
        "ForcedCommand",
        "after",
        "The SSH server of the host runs another command, due to `ForceCommand` or `command=` of a key.",
        f"Remove it from `{_SSHD_CONFIG}` and `administrators_authorized_keys` for this user, and restart sshd",
    ),
    define_error(
        "CredentialsWithheld",
        "after",
        "The proxy has credentials, but no selector permits them in workload clusters. The host keeps its settings.",
        "Set `spec.clusterSelector` of the EgressProxy that the message names; `{}` selects all clusters",
    ),
    define_error(
        "DirectoryNotOurs",
        "after",
        r"`C:\ProgramData\Transom` is not owned by SYSTEM or Administrators, so Transom does not trust its content.",
        "Find out who created it, and delete it on the host",
    ),
    define_error(
        "Fault",
        "itself",
        "An internal error of Transom. The log shows the location, without values.",
        "Report it, with the file from `transom doctor --bundle transom.tar.gz`",
    ),
    define_error(
        "FileBusy",
        "after",
        "The host refused a file operation for 75 s without a reason. A virus scanner may hold the file, or the disk may be"
        " full.",
        r"Check the free space of C:, and exclude `C:\Windows\Transom` from the virus scanner of the host",
    ),
    define_error(
        "FileRefused",
        "after",
        "The host refused a file: the disk is full, a permission is missing, or another file blocks it.",
        "Follow the message on the host",
    ),
    define_error("HashMismatch", "itself", "A file on the host does not have the expected hash. Transom sends it again."),
    define_error(
        "Held",
        "itself",
        "Another pass works on the host. The message names its owner.",
        "If that pass no longer runs, reboot the host to release its lock",
    ),
    define_error(
        "HostKeyChanged",
        "after",
        "The host's key differs from the pinned or recorded one. Transom sent nothing to the host.",
        "Find out which machine answers. If the machine was replaced, correct `spec.hostKey` or, if it is not set, run"
        " `transom forget NAME -n NAMESPACE --host-key`",
    ),
    define_error(
        "HostKeyMissing",
        "after",
        "The host's key is not known, and Transom must not trust it on first use (`--require-host-keys`).",
        _HOST_KEY,
    ),
    define_error(
        "HostKeyNotKept",
        "after",
        "Transom cannot write the host's first key to a file (CLI only).",
        "Make the file that the message names writable",
    ),
    define_error(
        "HostKeyNotRecorded",
        "itself",
        "Transom could not record the key of a new host, so it sent nothing to the host.",
        f"If this persists, {_HOST_KEY[0].lower()}{_HOST_KEY[1:]}",
    ),
    define_error(
        "HostKeyUnusable",
        "after",
        "`spec.hostKey` is not a public key.",
        "Set it to the type and the base64 string in `ssh_host_ed25519_key.pub`",
    ),
    define_error("ImportFailed", "after", "`reg import` refused the change.", _REPORT),
    define_error(
        "InstallFailed",
        "after",
        "Windows could not be prepared, a file could not be placed, or a service could not be created.",
        "Follow the message, which names the feature, file or service, and quotes Windows",
    ),
    define_error(
        "KeyExchangeTimedOut",
        "after",
        f"The port accepts TCP connections, but the SSH key exchange did not finish within `--connect-timeout`. {_AGAIN}.",
        "Check that sshd answers, not a firewall or load balancer; if the host is slow, raise `--connect-timeout`",
    ),
    define_error(
        "KeyNotFound",
        "after",
        "The host accepts the previous key, but the file where OpenSSH for Windows stores keys does not contain it.",
        "Add the line of the new key to the file that `sshd_config` of the host names",
    ),
    define_error(
        "KeyRefused",
        "after",
        "The host accepts neither the new key nor a previous one. Transom changed nothing.",
        "On the host, add the line that the message shows",
    ),
    define_error(
        "KeyUnusable",
        "after",
        "The private key is invalid or encrypted. Conditions report `KeyInvalid`.",
        "Store an OpenSSH private key without a passphrase in the Secret",
    ),
    define_error(
        "LoginTimedOut",
        "after",
        f"The SSH server did not accept or refuse the login within `--login-timeout`. {_AGAIN}.",
        "Check that the host can reach its domain controllers, log in with a local account, or raise `--login-timeout`",
    ),
    define_error(
        "ManagedByOther",
        "after",
        "Another operator or `transom apply` manages the host or its Node.",
        "Stop the other manager, then run `transom adopt NAME -n NAMESPACE --yes --context CONTEXT`, or"
        " `transom adopt --from wmco` for Nodes of the Windows Machine Config Operator",
    ),
    define_error(
        "NewKeyRefused",
        "after",
        "The host has the new key, but its SSH server refuses it and still accepts the previous key.",
        "Check the log of the SSH server and use a key type that the server accepts",
    ),
    define_error("NodeAddressAmbiguous", "after", "Two Windows Nodes have the address of the host.", "Set `spec.nodeName`"),
    define_error(
        "NodeAddressUnknown",
        "after",
        "The host's own address differs from its SSH address, due to NAT or a jump host.",
        "Set `spec.nodeIP` to the address of the Node",
    ),
    define_error(
        "NodeNameChanged",
        "after",
        "The name of the host, its Machine or `spec.nodeName` differs from that of the host's Node.",
        "Restore the name, or run `transom forget NAME -n NAMESPACE --node` to determine the Node again",
    ),
    define_error(
        "NodeNameInvalid", "after", "The host's name is not a valid Node name.", "Rename the host to a single DNS label"
    ),
    define_error(
        "NodeNameUnknown",
        "after",
        "On AWS and GCP, a Node must have the name from the metadata service of its instance. The service did not answer.",
        "Make 169.254.169.254 reachable on the host, or set `spec.nodeName`",
    ),
    define_error(
        "NodeNameTaken",
        "after",
        "Another instance, or a Node of another host, has this name. The message names it.",
        "Rename the host, delete an unused Node, or set `spec.nodeName`",
    ),
    define_error(
        "NotAdministrator",
        "after",
        "The user lacks the permissions that a pass requires.",
        "Set `spec.username` to an administrator with a full token over SSH",
    ),
    define_error("NotConverged", "itself", f"Transom made the change, but the host still differs. {_AGAIN}.", _REPORT),
    define_error(
        "NotExpressible",
        "after",
        "The name of an object on the host is not safe in a script.",
        "Rename the service or file that the message names",
    ),
    define_error(
        "NotRecorded",
        "itself",
        "Transom could not record the Node of the host, and does not use it yet.",
    ),
    define_error("Overtaken", "itself", "Another pass finished after this pass had read the host. This pass changed nothing."),
    define_error(
        "PassTimedOut",
        "itself",
        "The pass exceeded its time limit. The next pass resumes it.",
        "If the payload is large and the network is slow, raise `--pass-timeout`",
    ),
    define_error(
        "PingBlocked",
        "after",
        "`ping.exe`, which Transom's scripts use to wait, does not run on the host. Transom changed nothing.",
        "Allow `ping.exe` for administrators in the policy (AppLocker, WDAC)",
    ),
    define_error(
        "ProfileNotWritten",
        "after",
        "The profile for `spec.windows.powerShell` is read-only, open, signed, or not a script. Transom did not change it,"
        " and made all other changes.",
        "Correct the file that the message names, or set `spec.windows.powerShell` to `false`",
    ),
    define_error(
        "PutBack",
        "after",
        "A version of the payload does not run. Transom restored the previous version.",
        "Use another payload, or retry now with `transom resume --rollout`; Transom also retries later",
    ),
    define_error(
        "RestartsFailed",
        "after",
        "Services did not stop or start in time. The message contains the Windows error number, if any. A service that"
        " starts late has the new settings. The next pass waits for it and does not restart it.",
        "On the host, check the service that the message names. If it needs more time, set `--service-timeout` or"
        " `timeoutSeconds` of the service in the payload",
    ),
    define_error("ScriptFailed", "itself", f"A script failed for an unknown reason. {_AGAIN}.", _REPORT),
    define_error(
        "ServiceDisabled",
        "after",
        "A running service must be restarted but is disabled, so Windows would not start it again. Transom did not stop it,"
        " and made all other changes.",
        "Set its start type (`sc config NAME start= auto`) or stop it; the next pass then completes the change",
    ),
    define_error(
        "ServiceDied",
        "after",
        "A service was started but does not run.",
        "Check its log on the host; the message names the service",
    ),
    define_error(
        "SettingsMissing",
        "after",
        '`EgressProxy/cluster` does not exist. The host keeps its settings, because a missing object does not mean "no proxy".',
        "Create `EgressProxy/cluster`; an empty spec removes the settings",
    ),
    define_error(
        "SftpUnavailable",
        "after",
        "The SSH server of the host accepts the login, but starts no SFTP server.",
        f"Add `Subsystem sftp sftp-server.exe` to `{_SSHD_CONFIG}`, check that the program exists, and restart sshd",
    ),
    define_error(
        "Stopped",
        "itself",
        "A user stopped `apply`, `diff`, `rollback` or `facts` while it worked on the host. The operator never reports"
        " this reason.",
    ),
    define_error(
        "Superseded", "itself", "A process with a newer lease has worked on the host. This process does not change it."
    ),
    define_error(
        "TokenMissing",
        "after",
        "OpenShift's Secret contains no token for joining hosts.",
        "Check the Secret that the message names",
    ),
    define_error(
        "TooFewSessions",
        "after",
        "The SSH server of the host opens no second session on a connection.",
        f"Set `MaxSessions` to 2 or more in `{_SSHD_CONFIG}`, or remove it, and restart sshd",
    ),
    define_error(
        "Unreachable",
        "after",
        f"Transom cannot connect to the host over SSH. {_AGAIN}.",
        "Check power, name, address, port and firewall, and run `transom verify host ADDRESS` from the operator's network",
    ),
    define_error(
        "Unreadable",
        "after",
        "Transom could not read or parse a registry key, a value or a service, or a newer Transom wrote the ledger.",
        "Follow the message; if a newer Transom wrote the ledger, update Transom",
    ),
    define_error(
        "WrongEnvironmentType",
        "after",
        "A service's `Environment` is not REG_MULTI_SZ, the type that Windows reads. Transom did not change it, and"
        " made all other changes.",
        "Delete or correct the value that the message names",
    ),
)
