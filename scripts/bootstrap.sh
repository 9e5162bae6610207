#!/bin/bash
# Prepare this machine and the project's Python environments: scripts/bootstrap.sh run | test | lint | wireshark | repl
#
# Installs Debian packages only where they are missing, and says so. The environment is made from Debian's own Python,
# with its site packages, since Mininet's module is one of them. A stamp file per part makes a second call unnecessary.
set -euo pipefail
cd "$(dirname "$0")/.."

part=${1:?usage: scripts/bootstrap.sh run | test | lint | wireshark | repl}
# The p4runtime-shell of `make repl` pins a protobuf that excludes the controller's client: an environment of its own.
shell_package="p4runtime-shell==0.0.6"

packages=(mininet python3-venv python3-dev build-essential ethtool iproute2 procps)
commands=(mn mnexec cc make ethtool ip sysctl)
if [ "$part" = test ] || [ "$part" = wireshark ]; then
    packages+=(tshark)
    commands+=(tshark)
fi

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

install_packages() {
    local missing=() package
    if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
        local absent=() command
        for command in "${commands[@]}"; do
            command -v "$command" >/dev/null || absent+=("$command")
        done
        [ ${#absent[@]} -eq 0 ] && return
        fail "This is not Debian or Ubuntu, so nothing is installed by itself; missing: ${absent[*]}." \
             "Install Mininet, Python 3.11 or newer with venv and headers, a C compiler, ethtool and iproute2."
    fi
    for package in "${packages[@]}"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    [ "$(id -u)" -eq 0 ] || fail "Missing Debian packages: ${missing[*]}." \
        "Run this with sudo, or: sudo apt-get install --no-install-recommends ${missing[*]}"
    echo "Installing Debian packages: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    local log=build/apt.log
    mkdir -p build
    { apt-get update -q && apt-get install -q -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 ||
        { tail -n 5 "$log" >&2; fail "apt-get could not install them; all of its output is in $log."; }
}

make_environment() { # DIRECTORY PYTHON-OPTIONS...
    local directory=$1
    shift
    [ -x "$directory/bin/python" ] && return
    /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        fail "/usr/bin/python3 is $(/usr/bin/python3 --version 2>&1), but the project needs 3.11 or newer (Debian 12, Ubuntu 24.04)."
    /usr/bin/python3 -m venv "$@" "$directory"
}

pip_install() { # DIRECTORY WHAT...
    local directory=$1 log=build/pip.log
    shift
    mkdir -p build
    "$directory/bin/python" -m pip install --disable-pip-version-check -q "$@" >"$log" 2>&1 ||
        { tail -n 8 "$log" >&2; fail "pip could not install it; all of its output is in $log."; }
}

install_packages
case $part in
    run | test | lint | wireshark)
        make_environment .venv --system-site-packages
        extras=""
        case $part in test | lint) extras="[$part]" ;; esac
        echo "Installing Python packages into .venv ($part)"
        pip_install .venv -e ".$extras"
        touch .venv/.run-ready ".venv/.$part-ready" # every part holds what a run needs
        ;;
    repl)
        make_environment .venv-repl
        echo "Installing $shell_package into .venv-repl"
        pip_install .venv-repl "$shell_package"
        touch .venv-repl/.ready
        ;;
    *) fail "scripts/bootstrap.sh: no part is called $part; there are run, test, lint, wireshark, repl." ;;
esac
