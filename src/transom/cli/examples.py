"""The end of `--help`: examples and exit codes of each command. A test parses every example."""

from typing import Final

_EXAMPLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "demo": (("transom demo", ""),),
    "init": (
        ("transom init lab --simulated", "a host for tests"),
        ("transom init prod", "asks for everything"),
        ("transom init prod --from-cluster --from-nodes", "with the values of a cluster"),
        ("transom init prod --proxy http://proxy.corp.example:3128 --host 10.0.0.11 --key id_ed25519 --ca corp-ca.pem", ""),
    ),
    "simulate": (("transom simulate lab --detach", ""), ("transom simulate lab --stop", "")),
    "apply": (
        ("transom apply -f lab", ""),
        ("transom apply -f lab --limit 'win-1*'", "some hosts"),
        ("transom apply --context prod --dry-run", "the hosts of a cluster"),
        ("transom apply -f lab --remove", "remove everything of Transom from hosts"),
    ),
    "diff": (("transom diff -f lab", ""), ("transom diff -l env=prod -o json", "the hosts of the current context's cluster")),
    "rollback": (("transom rollback -f lab --dry-run", ""), ("transom rollback -f lab --limit win-1", "")),
    "adopt": (
        ("transom adopt --from wmco", "only shows it"),
        ("transom adopt --from wmco --context prod --yes", "adopts it"),
        ("transom adopt win-1 --context prod --yes", "a host of another Transom"),
        ("transom adopt secret/prod-systemd-proxy -n org-acme --context prod --yes", "an object"),
    ),
    "status": (
        ("transom status", ""),
        ("transom status host win-1", "all details of one host"),
        ("transom status --watch -l env=prod", "a live table"),
        ("transom status --wait --timeout 30m", "until every host has the settings"),
        ("transom status host win-1 win-2 --wait", "until these have"),
        ("transom status -f lab", "last known state"),
    ),
    "doctor": (
        ("transom doctor", "the cluster of the current context"),
        ("transom doctor -f lab", "a directory"),
        ("transom doctor --bundle transom.tar.gz", "for support"),
        ("transom doctor -f lab --bundle transom.tar.gz --facts", "with the state of hosts"),
    ),
    "check": (
        ("transom check --pre --image registry.example/transom:0.1.0", "before an installation"),
        ("transom check", "after it"),
    ),
    "pause": (
        ("transom pause win-1", ""),
        ("transom pause 'win-1*' --context prod --wait", "until the operator has left the hosts"),
    ),
    "resume": (
        ("transom resume win-1 --wait", "a paused host"),
        ("transom resume --rollout --wait --timeout 30m", "a rollout that was halted"),
    ),
    "restart": (
        ("transom restart win-1 win-2 --wait", ""),
        ("transom restart -l env=test", "hosts by label"),
    ),
    "reconcile": (
        ("transom reconcile win-1 --wait", "retries a failed host at once"),
        ("transom reconcile --all", ""),
    ),
    "forget": (
        ("transom forget win-1 --host-key --wait", "the machine was replaced"),
        ("transom forget win-1 --node", "the host was renamed"),
    ),
    "facts": (
        ("transom facts win-1 -f lab", "a host of the manifests"),
        ("transom facts Administrator@10.0.0.11 --key id_ed25519", "any host"),
        ("transom facts --all --context prod -o json", "every host of a cluster"),
        ("transom facts -l env=test -f lab", ""),
    ),
    "validate": (("transom validate -f lab", ""), ("transom validate -f lab -o json --probe", "")),
    "render": (("transom render -f lab", ""), ("transom render -f lab --output-dir out", "")),
    "manifests": (
        ("transom manifests --image registry.example/transom:0.1.0 | kubectl apply -f -", ""),
        ("transom manifests --values values.yaml --output-dir base", "for kustomize"),
        ("transom manifests --part crds", ""),
        ("transom manifests --part rbac --controllers egress,windows", "fewer rights"),
    ),
    "uninstall": (
        ("transom uninstall --context prod", "restores hosts first"),
        ("transom uninstall --context prod --leave-hosts", "keeps hosts unchanged"),
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
    "capi check": (("transom capi check -f templates", "your own templates and image files"),),
    "trust inspect": (("transom trust inspect corp-ca.pem", ""), ("transom trust inspect - -o json", "")),
    "no-proxy merge": (("transom no-proxy merge -f lab --reasons", ""),),
    "no-proxy check": (
        ("transom no-proxy check https://api.corp.example --no-proxy .corp.example", ""),
        ("transom no-proxy check http://10.0.0.1 --no-proxy 10.0.0.0/8 --client curl", ""),
        ("transom no-proxy check https://api.corp.example --env env.txt", "with the output of `env`"),
    ),
    "no-proxy lint": (
        ("transom no-proxy lint 10.0.0.0/8,.corp.example", ""),
        ("transom no-proxy lint --env env.txt", "a whole environment: the output of `env`"),
        ("transom no-proxy lint 10.0.0.0/8 --client all", "all clients, not only those of nodes"),
    ),
    "pods explain": (
        ("transom pods explain web-7d4 -n shop", "a pod of the cluster"),
        ("transom pods explain -f lab", "pods of manifests, with their settings"),
    ),
    "pods outdated": (("transom pods outdated", ""), ("transom pods outdated -n shop -l app=web", "")),
    "payload schema": (("transom payload schema", ""),),
    "payload default": (("transom payload default --kind kubeadm --kubernetes-version v1.36.3 --output-dir payload", ""),),
    "payload build": (
        ("transom payload build payload", ""),
        ("transom payload build payload --from downloads", ""),
        ("transom payload build payload --image payload-image", "for transom manifests --payload-image"),
    ),
    "payload copy": (("transom payload copy / /payload", "from its image to a volume"),),
    "payload check": (("transom payload check payload", ""),),
    "verify cluster": (
        ("transom verify cluster --context prod --junit cluster.xml", ""),
        ("transom verify cluster --label egress=proxied --egress-url https://example.com/", "also through the proxy"),
        ("transom verify cluster --dry-run -n shop", "validates the objects"),
        ("transom verify cluster --clean", "what a killed run has left"),
    ),
    "verify host": (("transom verify host 10.0.0.11 --username Administrator --key id_ed25519", ""),),
}
_ENDS: Final = {
    "apply": "0 every host has its settings, 1 a host failed or was skipped",
    "diff": "0 nothing differs, 1 something differs, 3 a host could not be read or was skipped",
    "rollback": "as apply, or with --dry-run as diff",
    "adopt": "0 everything is or can be adopted, 1 something stays with the other operator, or was not adopted in time",
    "status": "0 success, even if something is not ready, 1 the cluster did not answer, or with --wait something is not ready",
    "doctor": "0 no problem found, 1 problems found, 3 no problem found, but something could not be read",
    "check": "0 all checks pass, 1 a check fails, 3 no check fails, but the cluster or an object could not be read",
    "pause": "0 success, or already paused, 1 a host was refused, or not in time",
    "resume": "0 success, or nothing to resume, 1 a host was refused, failed, or not in time",
    "restart": "0 success, or nothing to restart, 1 a host was refused, failed, or not in time",
    "reconcile": "0 success, 1 a host was refused, failed, or not in time",
    "forget": "0 success, or nothing is recorded, 1 a host was refused, failed, or not in time",
    "facts": "0 success, 1 a host could not be read",
    "validate": "0 no errors (warnings are allowed), 2 errors",
    "uninstall": "0 success, 1 some hosts remain, or nothing was done",
    "no-proxy lint": "0 no errors or warnings, 1 errors or warnings",
    "capi check": "0 nothing found, 1 something found, 3 nothing to read",
    "verify cluster": "0 all checks pass or are not applicable, 1 a check fails, 3 the cluster does not answer",
    "verify host": "0 all checks pass, 1 a check fails, 3 the host could not be read",
}
_ALL: Final = "2 wrong usage or invalid input, 130 Ctrl-C"


def build_epilog(name: str) -> str:
    """Return the last paragraphs of a command's help; the form feed keeps line breaks."""
    rows = _EXAMPLES[name]
    width = max(len(line) for line, _ in rows if len(line) < 60) if any(len(line) < 60 for line, _ in rows) else 0
    lines = [f"  {line.ljust(width)}  # {item}" if item else f"  {line}" for line, item in rows]
    ends = f"Exit codes: {_ENDS[name]}; {_ALL}." if name in _ENDS else ""
    return "\n".join(["\b", "Examples:", *lines, *(["", ends] if ends else [])])


def read_examples() -> dict[str, tuple[str, ...]]:
    """Return the examples of each command."""
    return {name: tuple(line for line, _ in rows) for name, rows in _EXAMPLES.items()}
