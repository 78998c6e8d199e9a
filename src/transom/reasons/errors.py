"""What can go wrong with one host: the classes of HostError, whose names are reasons of its conditions."""

from typing import Final

from transom.reasons.reason import Reason, error

_AGAIN: Final = "tried again with growing pauses"
_HOST_KEY: Final = "Set `spec.hostKey` to the line of the host's `ssh_host_ed25519_key.pub`"
_REPORT: Final = "Please report it, with the file of `transom doctor --bundle transom.tar.gz --facts`"

ERRORS: Final[tuple[Reason, ...]] = (
    error("AdoptedNodeFound", "itself", "Once connected to, the host is seen to be a Node that another operator made."),
    error(
        "ApiServerUnknown",
        "after",
        "It is not known how hosts reach the API server, so that NO_PROXY would lack it.",
        "Set `spec.networks.internalAPIHost` of `EgressProxy/cluster`, or publish ConfigMap `kube-public/cluster-info`",
    ),
    error(
        "AuthenticationRefused",
        "after",
        "The host answers, and takes none of the keys for this user.",
        "Put the public key of `spec.keySecret` into `administrators_authorized_keys` of the host, or correct `spec.username`",
    ),
    error("ConnectionLost", "itself", f"The connection ended, or stood still, in the middle of a pass; {_AGAIN}."),
    error(
        "CredentialsWithheld",
        "after",
        "The proxy has credentials, and nobody said which workload clusters get them: the host keeps what it has.",
        "Set `spec.clusterSelector` of the EgressProxy that the message names; `{}` is all",
    ),
    error(
        "DirectoryNotOurs",
        "after",
        r"`C:\ProgramData\Transom` belongs to somebody who is neither SYSTEM nor Administrators: nothing in it is trusted.",
        "Find out who made it, and delete it on the host",
    ),
    error(
        "Fault",
        "itself",
        "A fault of Transom itself; the log says where, without any value.",
        "Please report it, with the file of `transom doctor --bundle transom.tar.gz`",
    ),
    error(
        "FileRefused",
        "after",
        "The host refused a file: disk full, no permission, something in the way.",
        "As the message says, on the host",
    ),
    error("HashMismatch", "itself", "A file that was sent does not have its hash on the host; it is sent again."),
    error(
        "Held",
        "itself",
        "Another pass works on the host; the message says whose.",
        "If that pass is dead, its hold is void after the next boot of the host",
    ),
    error(
        "HostKeyChanged",
        "after",
        "The host shows another key than the one that was pinned or recorded: nothing was sent to it.",
        "Find out who answers there. If the machine is a new one, correct `spec.hostKey`; without one: `kubectl patch"
        """ windowsinstance NAME -n NAMESPACE --subresource=status --type=merge -p '{"status":{"hostKeyFingerprint":null}}'`""",
    ),
    error(
        "HostKeyMissing",
        "after",
        "No key of the host is known, and none is trusted on first use (`--require-host-keys`).",
        _HOST_KEY,
    ),
    error(
        "HostKeyNotKept",
        "after",
        "The key that the host showed first cannot be written down (CLI).",
        "Make the file that the message names writable",
    ),
    error(
        "HostKeyNotRecorded",
        "itself",
        "The key of a host that was first met could not be kept: nothing was sent to it.",
        f"If it lasts: {_HOST_KEY[0].lower()}{_HOST_KEY[1:]}",
    ),
    error(
        "HostKeyUnusable",
        "after",
        "`spec.hostKey` is not a public key.",
        "Write the line of `ssh_host_ed25519_key.pub`: type and base64",
    ),
    error("ImportFailed", "after", "`reg import` refused the change.", _REPORT),
    error(
        "InstallFailed",
        "after",
        "Windows could not be prepared, a file not be placed, or a service not be made.",
        "As the message says: it names the feature, file or service, and Windows' own words",
    ),
    error(
        "KeyNotFound",
        "after",
        "The earlier key opens the host, and is not in the file where Windows' OpenSSH has it.",
        "Add the line of the new key where `sshd_config` of the host looks for keys",
    ),
    error(
        "KeyRefused",
        "after",
        "The host takes neither the new key nor an earlier one. Nothing was changed.",
        "Add the line that the message shows, on the host",
    ),
    error(
        "KeyUnusable",
        "after",
        "The private key cannot be read: not a key, or encrypted. In conditions it is `KeyInvalid`.",
        "Put an OpenSSH private key without passphrase into the Secret",
    ),
    error(
        "ManagedByOther",
        "after",
        "The host, or its Node, is worked on by another operator or by `transom apply`.",
        "End the other one's work; then `kubectl annotate windowsinstance NAME -n NAMESPACE transom.dev/adopt=true`, and take"
        " that off afterwards",
    ),
    error(
        "NewKeyRefused",
        "after",
        "The line of the new key is there, and the SSH server does not take the key; the earlier one still opens the host.",
        "Look at the log of its SSH server; give a key of a type that it takes",
    ),
    error("NodeAddressAmbiguous", "after", "Two Windows Nodes have the address of the host.", "Set `spec.nodeName`"),
    error(
        "NodeAddressUnknown",
        "after",
        "The host sees itself at another address than SSH reaches (NAT, a jump host).",
        "Set `spec.nodeIP` to the address that its Node is to have",
    ),
    error(
        "NodeNameChanged",
        "after",
        "The host, its Machine or `spec.nodeName` has another name than the Node that it is.",
        "Put the name back, or clear `status.nodeName` to have it decided again",
    ),
    error(
        "NodeNameInvalid", "after", "The name that the host gives itself cannot be a Node's.", "Give it one DNS label as name"
    ),
    error(
        "NodeNameTaken",
        "after",
        "Another instance, or a Node that is not this host's, has the name; the message says which.",
        "Rename the host, delete a Node that is a left-over, or set `spec.nodeName`",
    ),
    error(
        "NotAdministrator",
        "after",
        "The user may not do what a pass needs.",
        "Use an administrator in `spec.username`, with a full token over SSH",
    ),
    error("NotConverged", "itself", f"The change was carried out, and the host still differs; {_AGAIN}.", _REPORT),
    error(
        "NotExpressible",
        "after",
        "A name of something on the host cannot be written into a script without being read as something else.",
        "Rename the service or file that the message names",
    ),
    error(
        "NotRecorded",
        "itself",
        "Which Node the host is could not be written down: nothing follows from it. The API server is asked again.",
    ),
    error("Overtaken", "itself", "An earlier pass ended on the host after this one had read it; nothing was changed."),
    error(
        "PassTimedOut",
        "itself",
        "The pass took longer than it may; the next one goes on where it ended.",
        "Where a payload is large and the way slow: more `--pass-timeout`",
    ),
    error(
        "PutBack",
        "after",
        "A version of the payload does not run, and the former one was put back and runs.",
        "Give another payload. It is tried again later, or at once by annotation `transom.dev/resume`",
    ),
    error(
        "RestartsFailed",
        "after",
        "Services did not stop, or did not start, in their time.",
        "Look at the service that the message names, on the host; what was owed is restarted by the next pass",
    ),
    error(
        "ScriptFailed", "itself", f"A script did not do what it must, for a reason that it could not tell; {_AGAIN}.", _REPORT
    ),
    error(
        "ServiceDied",
        "after",
        "A service was started and does not run.",
        "Look at its log on the host; the message names it",
    ),
    error(
        "SettingsMissing",
        "after",
        "There is no `EgressProxy/cluster`, and nobody has said that there is to be no proxy: the host keeps what it has.",
        "Make `EgressProxy/cluster`; with an empty spec to take the settings away",
    ),
    error("Superseded", "itself", "A holder of a newer lease has worked on the host; this one leaves it alone."),
    error(
        "TokenMissing",
        "after",
        "There is nothing by which a host can join: OpenShift's Secret with the token has none.",
        "Look at the Secret that the message names",
    ),
    error(
        "Unreachable",
        "after",
        f"No SSH connection: name, network, port, time-out, or a server that does not speak SSH; {_AGAIN}.",
        "Ask from where the operator is: `transom verify host ADDRESS`; then power, address, port, firewall",
    ),
    error(
        "Unreadable",
        "after",
        "A registry key, a value or a service could not be read or understood; also a ledger that a newer Transom wrote.",
        "As the message says; update Transom where it says so",
    ),
    error(
        "WrongEnvironmentType",
        "after",
        "A service's `Environment` is not REG_MULTI_SZ, which is what Windows reads: it was left, the rest is done.",
        "Delete or correct the value that the message names",
    ),
)
