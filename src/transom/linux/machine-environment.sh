#!/bin/sh
# The proxy of this machine, in the formats of programs that do not read units. Only root can read files that may contain a password.
# The values are those of /etc/transom/machine.env; `$1` is the prefix of each path.
set -eu
root=${1:-}
[ -s "$root/etc/transom/machine.env" ] || exit 0
. "$root/etc/transom/machine.env"
umask 077
names='HTTP_PROXY http_proxy HTTPS_PROXY https_proxy NO_PROXY no_proxy'

value() { eval "printf '%s' \"\${$1:-}\""; }

# systemd.exec(5): `%` begins a specifier; quoted words have C escapes
mkdir -p "$root/etc/systemd/system.conf.d"
{
    printf '[Manager]\nDefaultEnvironment='
    for name in $names; do
        [ -z "$(value "$name")" ] || printf '"%s=%s" ' "$name" "$(value "$name" | sed 's/[\\"]/\\&/g; s/%/%%/g')"
    done
    printf '\n'
} >"$root/etc/systemd/system.conf.d/transom-proxy.conf"

# environment.d(5), for the managers of users: `$` begins a variable, and `$$` is a dollar sign
mkdir -p "$root/etc/environment.d"
for name in $names; do
    [ -z "$(value "$name")" ] || printf '%s="%s"\n' "$name" "$(value "$name" | sed 's/[\\"`]/\\&/g; s/\$/$$/g')"
done >"$root/etc/environment.d/90-transom-proxy.conf"

# apt.conf(5): sudo removes these variables; apt can exempt hosts (DIRECT), not domains or networks
if [ -d "$root/etc/apt" ]; then
    mkdir -p "$root/etc/apt/apt.conf.d"
    {
        [ -z "${HTTP_PROXY:-}" ] || printf 'Acquire::http::Proxy "%s";\n' "$HTTP_PROXY"
        [ -z "${HTTPS_PROXY:-}" ] || printf 'Acquire::https::Proxy "%s";\n' "$HTTPS_PROXY"
        printf '%s\n' "${NO_PROXY:-}" | tr ',' '\n' | while read -r item; do
            case $item in
            '' | '*' | .* | */* | *:*) ;;
            *) printf 'Acquire::http::Proxy::%s "DIRECT";\nAcquire::https::Proxy::%s "DIRECT";\n' "$item" "$item" ;;
            esac
        done
    } >"$root/etc/apt/apt.conf.d/95transom-proxy"
fi

# dnf.conf(5) has one proxy, and every user can read the file: a proxy with a password comes from the environment only
if [ -f "$root/etc/dnf/dnf.conf" ] && ! grep -q '^proxy *=' "$root/etc/dnf/dnf.conf"; then
    proxy=${HTTPS_PROXY:-${HTTP_PROXY:-}}
    case $proxy in
    '' | *@*) ;;
    *) sed -i "/^\\[main\\]/a proxy=$proxy" "$root/etc/dnf/dnf.conf" ;;
    esac
fi
