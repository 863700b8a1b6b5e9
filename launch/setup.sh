#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# launch/setup.sh   installs what Cairn is built and tested with; says nothing when all of it is there
#
#   1. Debian packages, by apt-get (as root, or through sudo without a password)
#   2. build/venv: torch, numpy, safetensors, h5py, lightning, zstandard, megatron-core, accelerate, by that environment's own pip
#
# CAIRN_PYTHON     the Python of build/venv, 3.10 to 3.13 (default: python3)
# CAIRN_PIP_ARGS   further arguments of pip install, e.g. --index-url URL
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(git ca-certificates g++ cmake ninja-build pkg-config python3 python3-venv
          openmpi-bin libopenmpi-dev libhdf5-dev libboost-program-options-dev libgtest-dev libisal-dev libzstd-dev libssl-dev
          zlib1g-dev libfmt-dev nlohmann-json3-dev clang-format)
requirements=(torch==2.13.0 numpy safetensors h5py lightning==2.6.6 zstandard megatron-core accelerate)
venv=build/venv
temporaries=$PWD/build/tmp/setup-$$

say() { printf 'setup: %s\n' "$*" >&2; }
stop() { say "$@"; exit 1; }

# need_space MEGABYTES FOLDER WHAT
need_space() {
  local free
  free=$(df -Pm "$2" | awk 'NR == 2 {print $4}')
  [[ $free -ge $1 ]] || stop "$3 needs about $1 MB; $2 has $free MB free"
}

missing_packages() {
  local name
  for name in "${packages[@]}"; do
    [[ $installed == *" $name "* ]] || printf '%s ' "$name"
  done
}

# apt COMMAND…: waits for other package managers; the lists and the archive have locks that apt-get does not wait for.
apt() {
  local log=$temporaries/apt.log try
  for try in {1..60}; do
    if "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -y -o DPkg::Lock::Timeout=600 "$@" >"$log" 2>&1 </dev/null; then return; fi
    grep -q 'Could not get lock\|Unable to lock' "$log" || break
    sleep 5
  done
  tail -n 20 "$log" >&2
  return 1
}

install_packages() {
  local missing
  if ! command -v apt-get >/dev/null; then
    ready_without_apt || stop "no apt-get here. Needed, by their Debian names: ${packages[*]}"
    return 0
  fi
  installed=" $( (dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true) |
                 awk '$1 == "installed" {printf "%s ", $2}') "
  read -ra missing <<<"$(missing_packages)"
  if [[ ${#missing[@]} -eq 0 ]]; then return; fi

  as_root=()
  if [[ $EUID -ne 0 ]]; then
    as_root=(sudo -n)
    sudo -n true 2>/dev/null || stop "packages are missing; run this line, then this script again:
sudo apt-get update && sudo apt-get install --no-install-recommends ${missing[*]}"
  fi
  need_space 1000 /usr "installing packages"
  say "installing ${#missing[@]} packages: ${missing[*]}"
  apt update || say "apt-get update failed; trying with the lists that are here"
  apt install --no-install-recommends "${missing[@]}" || stop "apt-get install failed"
}

# On other systems the person installs by hand: go on when the tools answer; CMake names a missing library.
ready_without_apt() {
  local tool
  for tool in git c++ cmake ninja pkg-config python3 mpirun; do
    command -v "$tool" >/dev/null || return 1
  done
}

check_python() {
  local version
  command -v "$python" >/dev/null || stop "CAIRN_PYTHON=$python: no such program"
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || stop "$python does not run"
  case $version in
    3.10 | 3.11 | 3.12 | 3.13) ;;
    *) stop "$python is Python $version; torch 2.13.0 is used with 3.10 to 3.13: set CAIRN_PYTHON" ;;
  esac
}

venv_is_complete() {
  "$venv/bin/python" - "${requirements[@]}" 2>/dev/null <<'PYTHON'
import importlib.metadata, sys
for wanted in sys.argv[1:]:
    name, _, version = wanted.partition("==")
    found = importlib.metadata.version(name)
    if version and found.partition("+")[0] != version:
        sys.exit(1)
PYTHON
}

make_venv() {
  local python=${CAIRN_PYTHON:-python3} pip_args
  if venv_is_complete; then return; fi
  check_python
  need_space 2000 build "build/venv"
  if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    say "making $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv" || stop "$python cannot make virtual environments (Debian: python3-venv)"
  fi
  read -ra pip_args <<<"${CAIRN_PIP_ARGS:-}"
  "$venv/bin/python" launch/torch_offer.py "${requirements[0]}" ${pip_args[@]+"${pip_args[@]}"} || exit 1
  "$venv/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --progress-bar off \
    ${pip_args[@]+"${pip_args[@]}"} "${requirements[@]}" || stop "pip could not install ${requirements[*]}"
  say "$venv is ready"
}

mkdir -p "$temporaries"
trap 'rm -rf "$temporaries"' EXIT
export TMPDIR=$temporaries
install_packages
make_venv
