# shellcheck shell=bash
# The environment of every script, and the functions by which a script runs its steps. Source it; alone it installs nothing.
#
# Networks: the machine's own settings hold (apt sources, pip.conf, UV_*, GOPROXY, HTTP_PROXY, HTTPS_PROXY, NO_PROXY in
# either case), and programs trust the CAs of the system's store, or those of SSL_CERT_FILE.
# Places: `cache` has what the lab builds, `tools` has uv and Go where the machine has none or too old ones, `log` has the
# output of the steps.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
script=scripts/${0##*/}

say() { printf '%s: %s\n' "$script" "$1" >&2; }
fail() { say "$1"; exit 1; }
# tell TEXT: to the person, also from within a step, whose output goes to the log
exec 3>&2
tell() { printf '%s\n' "$1"; printf '\n   %s\n' "$1" >&3; }

# ---- environment ---------------------------------------------------------------------------------------------------------

set_places() {
  # a login by `su` has no sbin directories, and a service may have no PATH at all
  local directory
  # the path that bash takes where there is none ends with the directory that it happens to be in
  PATH=${PATH%:.}
  for directory in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do
    case ":$PATH:" in *":$directory:"*) ;; *) PATH=$PATH:$directory ;; esac
  done
  # programs find no home without HOME and an entry in the table of users: Go and Python then refuse to work
  if [ -z "${HOME:-}" ] || [ ! -d "$HOME" ] || [ ! -w "$HOME" ]; then
    HOME=$(getent passwd "$(id -u)" 2>/dev/null | cut -d : -f 6) || true
    if [ -z "$HOME" ] || [ ! -d "$HOME" ] || [ ! -w "$HOME" ]; then
      HOME=/var/tmp/transom-$(id -u)
      mkdir -m 700 "$HOME" 2>/dev/null || [ -O "$HOME" ] || fail "$HOME belongs to another user: set HOME to a directory of yours"
    fi
  fi
  [ -d "${TMPDIR:-/tmp}" ] || unset TMPDIR
  cache=${XDG_CACHE_HOME:-$HOME/.cache}/transom-lab
  tools=$cache/tools
  case ":$PATH:" in *":$tools/bin:"*) ;; *) PATH=$tools/bin:$PATH ;; esac
  mkdir -p "$cache"
  import_linter_cache=$repository/.import_linter_cache
  log=$repository/build/${script#scripts/}.log
  if [ ! -w "$repository" ]; then
    # a clone on a read-only mount: the virtual environment and the caches of the linters have to lie elsewhere
    export UV_PROJECT_ENVIRONMENT=${UV_PROJECT_ENVIRONMENT:-$cache/venv} RUFF_CACHE_DIR=${RUFF_CACHE_DIR:-$cache/ruff}
    import_linter_cache=$cache/import-linter
  fi
  { mkdir -p "${log%/*}" && : >"$log"; } 2>/dev/null || { log=$cache/${script#scripts/}.log && : >"$log"; }
  export PATH HOME
}

set_language() {
  # what programs print is searched for words, and files are UTF-8; Debian's C library has this locale built in
  export LC_ALL=C.UTF-8
  # squid and other services of the lab read files as users of their own
  umask 022
  # settings of another Python, of a virtual environment, or of one that must not compile
  unset PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE VIRTUAL_ENV CONDA_PREFIX
}

set_network() {
  # curl and apt read http_proxy, Go and Python both cases, some programs only HTTP_PROXY
  local lower upper
  for lower in http_proxy https_proxy no_proxy; do
    upper=$(printf %s "$lower" | tr a-z A-Z)
    if [ -n "${!lower:-}" ]; then export "$upper=${!lower}"; elif [ -n "${!upper:-}" ]; then export "$lower=${!upper}"; fi
  done
  # uv trusts the CAs that it brings, unless told to trust the system's, as apt, Go, git and Debian's pip do
  # (https://docs.astral.sh/uv/concepts/authentication/certificates)
  export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS-true}
  # uv reads no setting of pip
  [ -z "${PIP_INDEX_URL:-}" ] || export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}
  # any other pip, and pip-audit, trust the CAs of certifi; the `cert` of a pip.conf goes before this
  local bundle=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
  [ ! -r "$bundle" ] || export REQUESTS_CA_BUNDLE=${REQUESTS_CA_BUNDLE:-$bundle}
}

set_git() {
  # git refuses a clone that another user owns, as one that is mounted into a container does (git-config, safe.directory)
  [ -z "${TRANSOM_SAFE_DIRECTORY:-}" ] || return 0
  local number=${GIT_CONFIG_COUNT:-0}
  export "GIT_CONFIG_KEY_$number=safe.directory" "GIT_CONFIG_VALUE_$number=$repository"
  export GIT_CONFIG_COUNT=$((number + 1)) TRANSOM_SAFE_DIRECTORY=$repository
}

set_python() {
  # the Python of Debian 12, whatever comes first in PATH: it is compiled with a profile
  [ ! -x /usr/bin/python3.11 ] || export UV_PYTHON=${UV_PYTHON:-/usr/bin/python3.11}
}

# ---- steps ---------------------------------------------------------------------------------------------------------------

# step TITLE COMMAND...: runs a command with its output in the log, on one line: the title, that it is not stuck, the seconds.
# If the command fails, prints the end of its output, the likely cause, and where the log is; returns the code.
step() {
  local title=$1 began=$SECONDS code=0 watcher first
  shift
  printf '== %s: %s\n' "$title" "$*" >>"$log"
  first=$(($(wc -l <"$log") + 1))
  [ -t 2 ] || printf '== %s ' "$title" >&2
  # the command stays in the foreground: Ctrl-C does not reach what a script runs in the background
  watch_step "$title" "$first" &
  watcher=$!
  "$@" >>"$log" 2>&1 </dev/null || code=$?
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  [ ! -t 2 ] || printf '\r\033[K== %s ' "$title" >&2
  if [ "$code" = 0 ]; then
    printf ' %s s\n' $((SECONDS - began)) >&2
    return
  fi
  printf ' failed after %s s\n' $((SECONDS - began)) >&2
  tail -n +"$first" "$log" | tail -n "${STEP_LINES:-20}" >&2
  tail -n +"$first" "$log" | explain
  say "$title failed (exit code $code). The whole output is in $log"
  return "$code"
}

# on a terminal: seconds and the newest line of the output; elsewhere a dot every 10 s
watch_step() {
  local began=$SECONDS line
  # a script that Ctrl-C has ended is there until its parent asks for its exit code, and that may wait for this output
  while sleep 1 && [ "$(sed 's/.*) //; s/ .*//' /proc/$$/stat 2>/dev/null || echo Z)" != Z ]; do
    if [ -t 2 ]; then
      line=$(tail -n +"$2" "$log" | tr '\r' '\n' | grep . | tail -n 1 | cut -c 1-60) || true
      printf '\r\033[K== %s  %s s  %s' "$1" $((SECONDS - began)) "$line" >&2
    elif [ $(((SECONDS - began) % 10)) = 0 ]; then
      printf . >&2
    fi
  done
}

# retry COMMAND...: runs a command that uses the network, four times at most. What a second try cannot change is not tried again.
retry() {
  local attempt code output seconds
  output=$(mktemp)
  for attempt in 1 2 3 4; do
    # without `pipefail` a pipe ends as its last command does
    "$@" 2>&1 | tee "$output"
    code=${PIPESTATUS[0]}
    if [ "$code" = 0 ] || [ $attempt = 4 ] || grep -q -i -E "$permanent" "$output"; then break; fi
    # each time that takes minutes, until all resolvers were asked for all names
    if [ $attempt = 2 ] && grep -q -i -E "$unresolved" "$output"; then break; fi
    seconds=$((attempt * ${TRANSOM_RETRY_SECONDS:-5}))
    tell "attempt $attempt of 4 failed; the next one is in $seconds s"
    sleep $seconds
  done
  rm -f "$output"
  return "$code"
}

untrusted='UnknownIssuer|CERTIFICATE_VERIFY_FAILED|certificate verify failed|signed by unknown authority|certificate is NOT trusted|SSL certificate problem'
clock='certificate has expired|is not yet valid|not valid yet|CertExpired|NotValidYet|invalid for another'
unresolved='could not resolve|failure resolving|failure in name resolution|Name or service not known|dns error|no such host|lookup address'
refused='Connection refused|Connection timed out|timed out|unreachable|i/o timeout|error sending request|connection reset|Connection broken|unexpected EOF|50[234] '
denied='407|Proxy Authentication'
forbidden='403 +Forbidden|403 Client Error|status: 403'
full='No space left on device|Disk quota exceeded'
permanent="$untrusted|$clock|$denied|$forbidden|$full|hashes are required|do not match the hashes|Hash mismatch|needs to be updated|Could not get lock"

# explain <OUTPUT: prints what a failure of the network means and what to do about it; nothing where it is none
explain() {
  local text host=''
  text=$(cat)
  # of the lines that say so, and else of all, the last server that is named
  hosts_in() { grep -o -E "https?://[^][ /:\"'()]+|host='[^']+|resolving '[^']+" | sed "s,.*[/'],," | tail -n 1; }
  found() {
    grep -q -i -E "$1" <<<"$text" || return
    host=$(grep -i -E "$1" <<<"$text" | hosts_in)
    [ -n "$host" ] || host=$(hosts_in <<<"$text")
    [ -n "$host" ] || host='the server'
  }
  if found "$full"; then
    say "the disk is full: the lab needs 20 GB, most of it below $HOME"
  elif found "$clock"; then
    say "a certificate of $host is expired or not valid yet: is this machine's clock right? It says $(date)"
  elif found "$untrusted"; then
    say "this machine does not trust the certificate of $host. If a proxy of your network decrypts TLS, add its CA to the system:"
    say "  cp CA.pem /usr/local/share/ca-certificates/proxy.crt && update-ca-certificates      (or set SSL_CERT_FILE and PIP_CERT)"
  elif found "$denied"; then
    say "the proxy requires a user and a password: set HTTPS_PROXY and HTTP_PROXY to http://USER:PASSWORD@HOST:PORT"
  elif found "$forbidden"; then
    say "the network does not permit $host (403): use a mirror (apt sources, PIP_INDEX_URL, UV_DEFAULT_INDEX, GOPROXY), or ask for access"
  elif found "$unresolved"; then
    say "$host could not be resolved. If your network requires a proxy, set HTTPS_PROXY and HTTP_PROXY"
  elif found "$refused"; then
    say "$host could not be reached. If your network requires a proxy, set HTTPS_PROXY and HTTP_PROXY. Run this again: it continues"
  else
    return 0
  fi
  [ -z "${SUDO_USER:-}" ] || say "sudo removes HTTPS_PROXY and SSL_CERT_FILE from the environment: use sudo -E"
}

# install WHAT: what this script needs on the machine (scripts/install says which)
install() {
  CALLER=$script "$repository/scripts/install" "$1"
  # they may be there now
  set_network
  set_python
}

# sync_environment [OPTION...]: the virtual environment of the project, as uv.lock has it
sync_environment() {
  if [ -n "${UV_DEFAULT_INDEX:-${UV_INDEX_URL:-}}" ]; then
    step "Python packages" retry sync_from_mirror "$@"
  else
    step "Python packages" retry uv sync --locked --project "$repository" "$@"
  fi
}

# uv.lock has the URLs of PyPI's files, and `uv sync` asks no other server for them; the hashes are the lock's all the same
sync_from_mirror() {
  local python=${UV_PROJECT_ENVIRONMENT:-$repository/.venv} listed
  listed=$(mktemp)
  [ -x "$python/bin/python" ] || uv venv --quiet "$python" || return
  uv export --quiet --frozen --project "$repository" --no-emit-project --output-file "$listed" >/dev/null &&
    uv pip sync --python "$python/bin/python" --require-hashes "$@" "$listed" &&
    uv pip install --python "$python/bin/python" --no-deps --editable "$repository"
  local code=$?
  rm -f "$listed"
  return $code
}

set_places
set_language
set_network
set_git
set_python
