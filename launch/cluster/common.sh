# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by slurm_test.sh and multinode_test.sh: skipping, borrowed packages, a checkpoint, its solo result.

# Servers and ip live there, and not every user looks there.
PATH=$PATH:/usr/sbin:/sbin

skip() {
  echo "skipped: $*" >&2
  exit 77
}

stop() {
  echo "failed: $*" >&2
  exit 1
}

# need PROGRAM…: skips unless all are found.
need() {
  local program
  for program in "$@"; do
    command -v "$program" >/dev/null || skip "no $program here"
  done
}

# borrow NAME PACKAGE…: unpacks the distribution's packages, with what they need and this system lacks, into
# build/cluster/NAME and puts its programs and libraries in front. Nothing is installed: no service starts,
# no user or configuration appears, and root is not needed. Done once; delete the folder to have it done again.
borrow() {
  local name=$1 root
  shift
  root=$PWD/build/cluster/$name
  if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then skip "$* not here, and no apt-get"; fi
  if [[ ! -e $root/complete ]]; then
    mkdir -p "$root" || skip "no permission to make $root"
    (
      flock 9
      [[ ! -e $root/complete ]] || exit 0
      fetch_packages "$root" "$@" >"$root/apt.log" 2>&1 && touch "$root/complete"
    ) 9>"$root/lock" || skip "packages $* could not be fetched: $(tail -n 1 "$root/apt.log")"
  fi
  PATH=$root/usr/sbin:$root/usr/bin:$root/sbin:$root/bin:$PATH
  LD_LIBRARY_PATH=$(printf '%s:' "$root"/usr/lib/*-linux-gnu* "$root"/lib/*-linux-gnu*)${LD_LIBRARY_PATH:-}
  export PATH LD_LIBRARY_PATH
}

# fetch_packages ROOT PACKAGE…: with lists of its own when the system's are absent or too old.
fetch_packages() {
  local root=$1 apt package
  shift
  mkdir -p "$root/debs/partial" "$root/lists/partial"
  apt=(apt-get -y --no-install-recommends -o "Dir::Cache::archives=$root/debs" -o Debug::NoLocking=1
       -o APT::Sandbox::User=)
  if ! "${apt[@]}" --download-only install "$@"; then
    apt+=(-o "Dir::State::lists=$root/lists" -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=")
    "${apt[@]}" update || return 1
    "${apt[@]}" --download-only install "$@" || return 1
  fi
  for package in "$root"/debs/*.deb; do
    dpkg-deb -x "$package" "$root" || return 1
  done
  rm -rf "$root/debs" "$root/lists"
}

# expect_same FILE FILE WHAT
expect_same() {
  cmp "$1" "$2" || stop "$3: not the bytes of the solo run"
  echo "ok: $3"
}
