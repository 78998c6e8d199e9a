"""What `--help` ends with: how each command is called, and how it ends. A test parses every example."""

from typing import Final

_EXAMPLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "demo": (("transom demo", ""),),
    "init": (
        ("transom init lab --simulated", "a host to try things on"),
        ("transom init prod", "asks what it has to know"),
        ("transom init prod --proxy http://proxy.corp.example:3128 --host 10.0.0.11 --key id_ed25519 --ca corp-ca.pem", ""),
    ),
    "simulate": (("transom simulate lab --detach", ""), ("transom simulate lab --stop", "")),
    "apply": (
        ("transom apply -f lab", ""),
        ("transom apply -f lab --limit 'win-1*'", "some hosts alone"),
        ("transom apply --context prod --dry-run", "the hosts of a cluster"),
        ("transom apply -f lab --remove", "take everything of Transom's off the hosts"),
    ),
    "diff": (("transom diff -f lab", ""), ("transom diff -l env=prod -o json", "the hosts of the current context's cluster")),
    "rollback": (("transom rollback -f lab --dry-run", ""), ("transom rollback -f lab --limit win-1", "")),
    "adopt": (("transom adopt --from wmco", "only says it"), ("transom adopt --from wmco --context prod --yes", "does it")),
    "status": (
        ("transom status", ""),
        ("transom status host win-1", "all that is known of one host"),
        ("transom status --watch -l env=prod", "a live table"),
        ("transom status -f lab", "what was last known from here"),
    ),
    "doctor": (
        ("transom doctor", "the cluster of the current context"),
        ("transom doctor -f lab", "a directory"),
        ("transom doctor --bundle transom.tar.gz", "what support asks for"),
        ("transom doctor -f lab --bundle transom.tar.gz --facts", "with what the hosts look like"),
    ),
    "facts": (
        ("transom facts win-1 -f lab", "a host of the manifests"),
        ("transom facts Administrator@10.0.0.11 --key id_ed25519", "any host"),
    ),
    "validate": (("transom validate -f lab", ""), ("transom validate -f lab -o json --probe", "")),
    "render": (("transom render -f lab", ""), ("transom render -f lab --output-dir out", "")),
    "manifests": (
        ("transom manifests --image registry.example/transom:0.1.0 | kubectl apply -f -", ""),
        ("transom manifests --values values.yaml --output-dir base", "a base for kustomize"),
        ("transom manifests --part crds", ""),
        ("transom manifests --part rbac --controllers egress,windows", "fewer rights"),
    ),
    "uninstall": (
        ("transom uninstall --context prod", "the hosts are given back first"),
        ("transom uninstall --context prod --leave-hosts", "the hosts stay as they are"),
    ),
    "userdata": (("transom userdata -f lab", ""), ("transom userdata --platform AWS", "")),
    "run": (("transom run --context prod --bind-address 127.0.0.1:8080 --log-format console", "on a laptop"),),
    "webhook": (("transom webhook --context prod --url https://10.0.0.5:9443", "for a server outside the cluster"),),
    "version": (("transom version", ""), ("transom version --client", "")),
    "completion": (
        ("source <(transom completion bash)", "bash: in ~/.bashrc"),
        ("source <(transom completion zsh)", "zsh: in ~/.zshrc, after compinit"),
        ("transom completion fish | source", "fish: in ~/.config/fish/config.fish"),
    ),
    "help": (("transom help apply", ""), ("transom help no-proxy check", "")),
    "capi worker": (
        ("transom capi worker --cluster prod --provider aws -f lab", ""),
        ("transom capi worker --cluster prod --provider azure --inputs worker.yaml", ""),
    ),
    "capi image": (
        ("transom capi image --provider aws --output-dir image", ""),
        ("transom capi image --provider aws --offline", "what the build downloads"),
    ),
    "capi check": (("transom capi check -f templates", "your own templates, and files of an image's build"),),
    "trust inspect": (("transom trust inspect corp-ca.pem", ""), ("transom trust inspect - -o json", "")),
    "no-proxy merge": (("transom no-proxy merge -f lab --reasons", ""),),
    "no-proxy check": (
        ("transom no-proxy check https://api.corp.example --no-proxy .corp.example", ""),
        ("transom no-proxy check http://10.0.0.1 --no-proxy 10.0.0.0/8 --client curl", ""),
    ),
    "no-proxy lint": (("transom no-proxy lint 10.0.0.0/8,.corp.example", ""),),
    "pods explain": (
        ("transom pods explain web-7d4 -n shop", "a pod of the cluster"),
        ("transom pods explain -f lab", "pods of manifests, with the settings beside them"),
    ),
    "pods outdated": (("transom pods outdated", ""), ("transom pods outdated -n shop -l app=web", "")),
    "payload schema": (("transom payload schema", ""),),
    "payload default": (("transom payload default --kind kubeadm --kubernetes-version v1.36.3 --output-dir payload", ""),),
    "payload build": (
        ("transom payload build payload", ""),
        ("transom payload build payload --from downloads", ""),
        ("transom payload build payload --image payload-image", "for transom manifests --payload-image"),
    ),
    "payload copy": (("transom payload copy / /payload", "out of its image, into a volume"),),
    "payload check": (("transom payload check payload", ""),),
    "verify cluster": (
        ("transom verify cluster --context prod --junit cluster.xml", ""),
        ("transom verify cluster --label egress=proxied --egress-url https://example.com/", "through the proxy as well"),
        ("transom verify cluster --dry-run -n shop", "what the API server would take"),
        ("transom verify cluster --clean", "what a run that was killed has left"),
    ),
    "verify host": (("transom verify host 10.0.0.11 --username Administrator --key id_ed25519", ""),),
}
_ENDS: Final = {
    "apply": "0 every host has its settings, 1 a host failed or was skipped",
    "diff": "0 nothing differs, 1 something does, or a host was skipped, 3 a host could not be read",
    "rollback": "as apply; with --dry-run as diff",
    "adopt": "0 all is handed over, or could be, 1 something stays with it",
    "status": "0 also where something is not ready, 1 the cluster did not answer",
    "doctor": "0 nothing looks wrong, 1 something does, 3 nothing does, and not all could be read",
    "facts": "0 done, 1 a host could not be read",
    "validate": "0 no error (warnings are none), 2 there are errors",
    "uninstall": "0 done, 1 hosts are still there, or nothing was done",
    "no-proxy lint": "0 nothing found, 1 something was",
    "capi check": "0 nothing found, 1 something was, 3 there is nothing to read",
    "verify cluster": "0 every check passes or is not applicable, 1 one fails, 3 the cluster does not answer",
    "verify host": "0 every check passes, 1 one fails, 3 the host could not be read",
}
_ALL: Final = "2 wrong usage or invalid input, 130 Ctrl-C"


def epilog(name: str) -> str:
    """The last paragraphs of a command's help; the form feed keeps lines as they are."""
    rows = _EXAMPLES[name]
    width = max(len(line) for line, _ in rows if len(line) < 60) if any(len(line) < 60 for line, _ in rows) else 0
    lines = [f"  {line.ljust(width)}  # {what}" if what else f"  {line}" for line, what in rows]
    ends = f"Exit codes: {_ENDS[name]}; {_ALL}." if name in _ENDS else ""
    return "\n".join(["\b", "Examples:", *lines, *(["", ends] if ends else [])])


def lines() -> dict[str, tuple[str, ...]]:
    """The examples of each command."""
    return {name: tuple(line for line, _ in rows) for name, rows in _EXAMPLES.items()}
