#!/bin/sh
# The proxy of all of this machine, in the forms of those who read no unit. What may hold a password root alone can read.
# The values are those of /etc/transom/machine.env; `$1` is put before each path.
set -eu
root=${1:-}
[ -s "$root/etc/transom/machine.env" ] || exit 0
. "$root/etc/transom/machine.env"
umask 077
names='HTTP_PROXY http_proxy HTTPS_PROXY https_proxy NO_PROXY no_proxy'

value() { eval "printf '%s' \"\${$1:-}\""; }

# systemd.exec(5): `%` begins a specifier; words in quotes have C escapes
mkdir -p "$root/etc/systemd/system.conf.d"
{
    printf '[Manager]\nDefaultEnvironment='
    for name in $names; do
        [ -z "$(value "$name")" ] || printf '"%s=%s" ' "$name" "$(value "$name" | sed 's/[\\"]/\\&/g; s/%/%%/g')"
    done
    printf '\n'
} >"$root/etc/systemd/system.conf.d/transom-proxy.conf"

# environment.d(5), for the managers of users: `$` begins a variable, and `$$` is one
mkdir -p "$root/etc/environment.d"
for name in $names; do
    [ -z "$(value "$name")" ] || printf '%s="%s"\n' "$name" "$(value "$name" | sed 's/[\\"`]/\\&/g; s/\$/$$/g')"
done >"$root/etc/environment.d/90-transom-proxy.conf"

# apt.conf(5): sudo keeps no variable of these; a host that is DIRECT is named, domains and networks cannot be
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

# dnf.conf(5) has one proxy, and every user reads the file: one with a password comes from the environment alone
if [ -f "$root/etc/dnf/dnf.conf" ] && ! grep -q '^proxy *=' "$root/etc/dnf/dnf.conf"; then
    proxy=${HTTPS_PROXY:-${HTTP_PROXY:-}}
    case $proxy in
    '' | *@*) ;;
    *) sed -i "/^\\[main\\]/a proxy=$proxy" "$root/etc/dnf/dnf.conf" ;;
    esac
fi
