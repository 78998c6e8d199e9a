"""What the Windows Machine Config Operator puts on a host, as a table: each fact with its file and line.

    uv run python -m tests.windows.payload.peer REPOSITORY [COMMIT] >tests/windows/payload/peer.json

REPOSITORY is a clone of https://github.com/openshift/windows-machine-config-operator, or its git directory. Read are the Go
sources of services, files and the kubelet's configuration, and the texts beside them; nothing of it is run.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import yaml

COMMIT = "0be4b9ccb94d8450f918724a93fb4c7d89d6eefe"
SERVICES = "pkg/services/services.go"
WINDOWS = "pkg/windows/windows.go"
NODECONFIG = "pkg/nodeconfig/nodeconfig.go"
IGNITION = "pkg/ignition/ignition.go"
PAYLOAD = "pkg/nodeconfig/payload/payload.go"
LOGCONFIG = "pkg/logconfig/logconfig.go"
CONTAINERD = "pkg/internal/containerd_conf.toml"
EXPORTER = "pkg/internal/windows-exporter-webconfig.yaml"
RULES = "bundle/manifests/windows-prometheus-k8s-rules_monitoring.coreos.com_v1_prometheusrule.yaml"

_TOKEN = re.compile(r'//[^\n]*|`[^`]*`|"(?:\\.|[^"\\])*"|[A-Za-z_][\w.]*|\d+|:=|&&|\|\||[^\s]')
_FLAG = re.compile(r"(?:^|\s)(--?[A-Za-z][\w.-]*)(?:=(\S*)|\s+(?!-)(\S+))?")


class Go:
    """A Go source as tokens with their lines, and constants as far as they are texts."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text, self.package = path, text, path.split("/")[-2]
        self.tokens = [
            (match[0], text.count("\n", 0, match.start()) + 1)
            for match in _TOKEN.finditer(text)
            if not match[0].startswith("//")
        ]

    def body(self, name: str) -> list[tuple[str, int]]:
        """The tokens of a function's body."""
        words = [token for token, _ in self.tokens]
        start = next(at for at, word in enumerate(words) if word == "func" and name in words[at + 1 : at + 7])
        depth = 0
        at = words.index("(", words.index(name, start))
        while words[at] != "{" or depth:
            depth += (words[at] in "([") - (words[at] in ")]")
            at += 1
        end, depth = at, 0
        while True:
            depth += (words[end] == "{") - (words[end] == "}")
            if not depth:
                return self.tokens[at + 1 : end]
            end += 1


class Texts:
    """Expressions of Go that are texts."""

    def __init__(self, constants: dict[str, str], package: str) -> None:
        self.constants, self.package = constants, package

    def value(self, tokens: list[tuple[str, int]], at: int) -> tuple[str, int]:
        """The text of the expression that begins there, and where it ends. What is not known stands between ⟨ and ⟩."""
        text, at = self._term(tokens, at)
        while at < len(tokens) and tokens[at][0] == "+":
            more, at = self._term(tokens, at + 1)
            text += more
        return text, at

    def _term(self, tokens: list[tuple[str, int]], at: int) -> tuple[str, int]:
        word = tokens[at][0]
        if word[0] == '"':
            return json.loads(word), at + 1
        if word[0] == "`":
            return word[1:-1], at + 1
        if at + 1 < len(tokens) and tokens[at + 1][0] == "(":
            arguments, end = self._arguments(tokens, at + 2)
            if word == "fmt.Sprintf":
                form, *rest = arguments
                return re.sub(r"%[sdv]", lambda _: rest.pop(0), form), end
            if word == "logconfig.GetKubeLogRunnerCmd":
                return f"{arguments[0]} -log-file={arguments[2]} {arguments[1]}", end
            return f"\u27e8{word}\u27e9", end
        name = word if "." in word else f"{self.package}.{word}"
        return self.constants.get(name, f"\u27e8{word}\u27e9"), at + 1

    def _arguments(self, tokens: list[tuple[str, int]], at: int) -> tuple[list[str], int]:
        found = []
        while tokens[at][0] != ")":
            text, at = self.value(tokens, at)
            while tokens[at][0] not in (",", ")"):
                # an index, a conversion: nothing that a flag is made of
                at += 1
            found.append(text)
            at += tokens[at][0] == ","
        return found, at + 1


def constants(sources: list[Go]) -> dict[str, str]:
    """Texts that have a name, by package and name; of a variable that is assigned twice, the first."""
    found: dict[str, str] = {}
    for _ in range(3):
        for source in sources:
            for at, (word, _line) in enumerate(source.tokens[:-2]):
                name, opened = f"{source.package}.{word}", source.tokens[at + 2][0]
                if name in found or source.tokens[at + 1][0] not in ("=", ":=") or not re.fullmatch(r"[A-Za-z_]\w*", word):
                    continue
                if opened[0] in '"`' or opened in found or f"{source.package}.{opened}" in found:
                    text, _ = Texts(found, source.package).value(source.tokens, at + 2)
                    if "\u27e8" not in text:
                        found[name] = text
    return found


def conditions(tokens: list[tuple[str, int]]) -> dict[int, str]:
    """Each position with the condition of the innermost `if` or `case` around it."""
    found: dict[int, str] = {}
    stack: list[str] = []
    pending = ended = case = ""
    for at, (word, _) in enumerate(tokens):
        if word == "if":
            rest = [token for token, _ in tokens[at + 1 :]]
            pending = " ".join(rest[: rest.index("{")])
        elif word == "else":
            pending = f"not {ended}"
        elif word == "case":
            case = tokens[at + 1][0]
        elif word == "{":
            stack.append(pending)
            pending = ""
        elif word == "}":
            ended = stack.pop()
        found[at] = next((item for item in reversed(stack) if item), case)
    return found


def flags(source: Go, function: str, texts: Texts) -> Iterator[dict[str, object]]:
    """The flags of a command that a function makes, in order."""
    tokens = source.body(function)
    when = conditions(tokens)
    at = 0
    while at < len(tokens):
        word, line = tokens[at]
        if word in ("Path", "NodeObjectJsonPath", "VariableName") and tokens[at + 1][0] == ":":
            _, at = texts.value(tokens, at + 2)
        elif word in ("fmt.Errorf", "strings.ReplaceAll"):
            at += 1
            while tokens[at][0] not in ("}", "return"):
                if tokens[at][0] == ")" and tokens[at][1] != line:
                    break
                at += 1
                if tokens[at][1] != line:
                    break
        elif word[0] in '"`' or word in ("fmt.Sprintf", "logconfig.GetKubeLogRunnerCmd"):
            text, end = texts.value(tokens, at)
            for flag, joined, apart in _FLAG.findall(text):
                entry = {"flag": flag, "value": joined or apart, "file": source.path, "line": line}
                yield entry | ({"when": when[at]} if when[at] else {})
            at = end
        else:
            at += 1


def fields(tokens: list[tuple[str, int]], prefix: str = "") -> Iterator[tuple[str, list[tuple[str, int]], int]]:
    """The fields of a struct literal: path, the tokens of the value, line."""
    at = 0
    while at < len(tokens):
        word, line = tokens[at]
        if word == "string" and [item for item, _ in tokens[at + 3 : at + 5]] == [")", ":"]:
            # a key of a map: string(core.ResourceCPU)
            word, at = f'"{tokens[at + 2][0]}"', at + 3
        if at + 1 < len(tokens) and tokens[at + 1][0] == ":" and (word[0] in '"' or re.fullmatch(r"[A-Za-z]\w*", word)):
            end, depth = at + 2, 0
            while end < len(tokens) and (depth or tokens[end][0] not in (",",)):
                depth += (tokens[end][0] in "{([") - (tokens[end][0] in "})]")
                if depth < 0:
                    break
                end += 1
            value = tokens[at + 2 : end]
            name = prefix + word.strip('"')
            braces = [number for number, (item, _) in enumerate(value) if item == "{"]
            if braces and value[0][0] not in ("[", "meta.Duration") and any(item == ":" for item, _ in value[braces[0] :]):
                yield from fields(value[braces[0] + 1 : -1], f"{name}.")
            else:
                yield name, value, line
            at = end
        at += 1


_LOCAL = {"true": True, "false": False, "falseBool": False, "trueBool": True, "kubeAPIQPS": 50, "emptyString": ""}
_UNITS = {"Second": "s", "Minute": "m", "Hour": "h"}


def literal(tokens: list[tuple[str, int]], texts: Texts) -> object:
    """The value of a field, as the configuration's YAML has it; what is none is the text of the expression."""
    words = [word for word, _ in tokens if word != "&"]
    if words[0] in _LOCAL:
        return _LOCAL[words[0]]
    if words[0].isdigit():
        return int(words[0])
    if words[:3] == ["[", "]", "string"]:
        return [texts.value([(word, 0)], 0)[0] for word in words[4:-1] if word != ","]
    if words[:4] == ["meta.Duration", "{", "Duration", ":"]:
        return words[4] + _UNITS[words[6].rpartition(".")[2]]
    value, end = texts.value(tokens, 0)
    return value if end == len(tokens) else " ".join(words)


def flat(value: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    """The leaves of a structure."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from flat(item, f"{prefix}{name}|")
    else:
        yield prefix[:-1], value


def numbered(path: str, text: str, value: object) -> Iterator[dict[str, object]]:
    """The leaves of a text, each with the line of its name."""
    lines = text.splitlines()
    seen: dict[str, int] = {}
    for name, leaf in flat(value):
        last = name.rpartition("|")[2]
        start = seen.get(last, 0)
        line = next(
            (at for at in range(start, len(lines)) if re.match(rf"\s*[\"']?{re.escape(last)}[\"']?\s*[:=]", lines[at])), -1
        )
        seen[last] = line + 1
        yield {"field": name, "value": leaf, "file": path, "line": line + 1}


def main() -> None:
    """Print the table."""
    repository, commit = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else COMMIT

    def read(path: str) -> str:
        command = ["git", "-C", repository, "show", f"{commit}:{path}"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    go = {path: Go(path, read(path)) for path in (SERVICES, WINDOWS, NODECONFIG, IGNITION, PAYLOAD, LOGCONFIG)}
    names = constants(list(go.values()))
    texts = Texts(names, "services")
    source = go[SERVICES]
    made = {
        "windows_exporter": "GenerateManifest",
        "containerd": "containerdConfiguration",
        "kubelet": "getKubeletServiceConfiguration",
        "hybrid-overlay-node": "hybridOverlayConfiguration",
        "kube-proxy": "kubeProxyConfiguration",
        "csi-proxy": "csiProxyConfiguration",
        "cloud-node-manager": "azureCloudNodeManagerConfiguration",
    }
    services = []
    for name, function in made.items():
        tokens = source.body(function)
        words = [word for word, _ in tokens]
        listed = list(flags(source, function, texts))
        for other, used in (
            ("generateKubeletArgs", "kubelet"),
            ("klogVerbosityArg", "kubelet"),
            ("klogVerbosityArg", "csi-proxy"),
        ):
            listed += list(flags(source, other, texts)) if used == name else []
        first = words.index("Priority")
        depends = words.index("Dependencies")
        value = words[depends + 2 : words.index(":", depends + 2) - 1]
        services.append(
            {
                "name": name,
                "priority": int(words[first + 2]),
                "bootstrap": words[words.index("Bootstrap") + 2] == "true",
                "dependencies": [names[word] for word in value if word in names],
                "file": SERVICES,
                "line": tokens[first][1],
                "flags": listed,
                "scripts": [
                    {"script": texts.value(tokens, at + 2)[0], "file": SERVICES, "line": tokens[at][1]}
                    for at, word in enumerate(words)
                    if word == "Path" and words[at + 1] == ":"
                ],
            }
        )
    windows = go[WINDOWS]
    directories = [word for word, _ in windows.tokens]
    start = directories.index("RequiredDirectories")
    listed = windows.tokens[directories.index("{", start) + 1 : directories.index("}", start)]
    files = windows.body("getFilesToTransfer")
    when = conditions(files)
    words = [word for word, _ in files]
    payload = []
    for at, (word, line) in enumerate(files):
        if word in names and word.startswith("payload."):
            # `payload.X: dir` in a literal, `pairs[payload.X] = dir` below
            destination = names[f"windows.{words[at + (2 if words[at + 1] == ':' else 3)]}"]
            name = names[word].rpartition("/")[2].removesuffix(".tar.gz")
            entry = {"path": f"{destination}\\{name}", "file": WINDOWS, "line": line}
            payload.append(entry | ({"when": when[at]} if when[at] else {}))
    kubelet = go[NODECONFIG].body("generateKubeletConfiguration")
    begin = next(at for at, (word, _) in enumerate(kubelet) if word.endswith(".KubeletConfiguration"))
    configuration = [
        {"field": name, "value": literal(value, Texts(names, "nodeconfig")), "file": NODECONFIG, "line": line}
        for name, value, line in fields(kubelet[begin:])
    ]
    template = names["payload.networkConfTemplate"]
    cni = re.search(r"\$cni_template=@'\n(.*?)\n'@", template, re.DOTALL)[1]
    proxy = re.search(r'\$kube_proxy_config=@"\n(.*?)\n"@', template, re.DOTALL)[1]
    within = go[PAYLOAD].text

    def beside(path: str, text: str, value: object) -> list[dict[str, object]]:
        before = within[: within.index(text.splitlines()[0] + "\n" + text.splitlines()[1])].count("\n")
        return [item | {"line": item["line"] + before} for item in numbered(path, text, value)]

    policies = [
        {
            "field": f"policies|{policy['value']['type']}",
            "value": policy["value"]["settings"],
            "file": PAYLOAD,
            "line": within[: within.index(f'"type": "{policy["value"]["type"]}"')].count("\n") + 1,
        }
        for policy in json.loads(cni)["policies"]
    ]
    tables: dict[str, list[dict[str, object]]] = {
        "services": services,
        "directories": [
            {"path": names[f"windows.{word}"], "file": WINDOWS, "line": line}
            for word, line in listed
            if f"windows.{word}" in names
        ],
        "files": payload,
        "kubelet": configuration,
        "containerd": list(numbered(CONTAINERD, read(CONTAINERD), tomllib.loads(read(CONTAINERD)))),
        "cni": [*beside(PAYLOAD, cni, {k: v for k, v in json.loads(cni).items() if k != "policies"}), *policies],
        "kube-proxy": beside(PAYLOAD, proxy, yaml.safe_load(proxy)),
        "exporter": list(numbered(EXPORTER, read(EXPORTER), yaml.safe_load(read(EXPORTER)))),
    }
    recorded = read(RULES)
    tables["rules"] = [
        {
            "record": rule["record"],
            "expr": rule["expr"].strip(),
            "file": RULES,
            "line": recorded[: recorded.index(f"record: {rule['record']}\n")].count("\n") + 1,
        }
        for rule in yaml.safe_load(recorded)["spec"]["groups"][0]["rules"]
    ]
    head = {"repository": "https://github.com/openshift/windows-machine-config-operator", "commit": commit}
    parts = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    for name, rows in tables.items():
        listed_rows = ",\n  ".join(json.dumps(row) for row in rows)
        parts.append(f"{json.dumps(name)}: [\n  {listed_rows}\n ]")
    print("{\n " + ",\n ".join(parts) + "\n}")


if __name__ == "__main__":
    main()
