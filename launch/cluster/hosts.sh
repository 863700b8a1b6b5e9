# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced: hosts made of namespaces (network, mounts, names, processes) on this machine, each with its own sshd.
#
# A host is one holding process and all that descends from it: when that goes, the kernel ends its processes, its
# mounts and its network. Same path, other disk: $work/local is a tmpfs of its own on each host; the rest of $work is
# what they share. Needs root. $work is set before.

declare -A host_pids=()

need_for_hosts() {
  local program
  [[ $EUID -eq 0 ]] || skip "hosts need root: namespaces with mounts and an sshd of their own"
  need unshare nsenter setpriv pgrep
  for program in sshd ssh ssh-keygen ip; do
    command -v $program >/dev/null || { borrow ssh openssh-server openssh-client iproute2; break; }
  done
  need sshd ssh ssh-keygen ip
}

# on HOST COMMAND…: in that host, with nothing of this shell's environment but what a login has.
on() {
  local host=$1
  shift
  nsenter --target "${host_pids[$host]}" --net --mount --uts --ipc --pid --wd="$work" \
    env -i HOME=/root USER=root LOGNAME=root SHELL=/bin/bash PATH="$PATH" LC_ALL=C.UTF-8 TMPDIR="$work/local/tmp" \
    ${LD_LIBRARY_PATH:+"LD_LIBRARY_PATH=$LD_LIBRARY_PATH"} "$@"
}

# seen_from HOST PATH: the name under which this shell finds what HOST calls PATH.
seen_from() { printf '/proc/%s/root%s' "${host_pids[$1]}" "$2"; }

# start_host NAME
start_host() {
  local name=$1 holder
  # Dies with this shell, and takes the host along. Bash: as first process it has to bury orphans.
  setpriv --pdeathsig KILL unshare --net --mount --uts --ipc --pid --fork --kill-child --mount-proc \
    bash -c 'echo up; while :; do sleep 60; done' >"$work/$name.up" 2>"$work/$name.log" &
  holder=$!
  for _ in {1..40}; do
    [[ ! -s $work/$name.up ]] || break
    kill -0 "$holder" 2>/dev/null || break
    sleep 0.1
  done
  [[ -s $work/$name.up ]] || skip "no namespaces for a host: $(tail -n 1 "$work/$name.log")"
  host_pids[$name]=$(pgrep --parent "$holder")
  on "$name" bash -e <<SCRIPT || skip "host $name cannot be set up: mounts are not permitted"
hostname $name
mkdir -p $work/local
mount -t tmpfs -o mode=755,size=256m private $work/local
mkdir -m 700 $work/local/tmp
mount -t tmpfs -o mode=1777 private /dev/shm
mount -t tmpfs -o mode=755 private /run
mkdir -p /run/sshd
for file in passwd shadow group hosts; do mount --bind $work/etc/\$file /etc/\$file; done
SCRIPT
}

# The hosts know each other and two users; keys, known hosts and the client's settings are made for this run.
write_host_files() {
  local i=1 name
  mkdir -p "$work/etc" "$work/ssh"
  printf '%s\n' 'root:x:0:0:root:/root:/bin/bash' 'sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin' \
    'nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin' >"$work/etc/passwd"
  printf '%s\n' 'root:*:19000:0:99999:7:::' 'sshd:!:19000::::::' 'nobody:*:19000::::::' >"$work/etc/shadow"
  printf '%s\n' 'root:x:0:' 'tty:x:5:' 'nogroup:x:65534:' >"$work/etc/group"
  echo '127.0.0.1 localhost' >"$work/etc/hosts"
  for name in "$@"; do
    echo "10.77.0.$((i++)) $name" >>"$work/etc/hosts"
  done
  ssh-keygen -q -t ed25519 -N '' -C '' -f "$work/ssh/host_key"
  ssh-keygen -q -t ed25519 -N '' -C '' -f "$work/ssh/user_key"
  cp "$work/ssh/user_key.pub" "$work/ssh/authorized_keys"
  for name in "$@"; do
    echo "$name $(cut -d' ' -f1,2 "$work/ssh/host_key.pub")" >>"$work/ssh/known_hosts"
  done
  cat >"$work/ssh/client" <<CONF
Host *
  User root
  IdentityFile $work/ssh/user_key
  IdentitiesOnly yes
  UserKnownHostsFile $work/ssh/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
  ConnectTimeout 10
CONF
  # SetEnv: what ~/.bashrc does on a real node.
  cat >"$work/ssh/server" <<CONF
HostKey $work/ssh/host_key
AuthorizedKeysFile $work/ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
PidFile none
SetEnv TMPDIR=$work/local/tmp
CONF
}

# start_hosts NAME NAME: with a cable between them and an sshd on each.
start_hosts() {
  local name
  write_host_files "$@"
  for name in "$@"; do start_host "$name"; done
  # From inside the first: this machine's own network never sees the cable.
  nsenter --target "${host_pids[$1]}" --net ip link add cable type veth peer name cable netns "${host_pids[$2]}" ||
    skip "no veth pair between network namespaces here"
  for name in "$@"; do
    on "$name" ip link set lo up
    on "$name" ip address add "$(awk -v name="$name" '$2 == name {print $1}' "$work/etc/hosts")/24" dev cable
    on "$name" ip link set cable up
    on "$name" "$(command -v sshd)" -f "$work/ssh/server" -E "$work/$name.sshd.log"
  done
  on "$1" ssh -F "$work/ssh/client" "$2" true ||
    stop "no ssh from $1 to $2: $(cat "$work"/*.sshd.log)"
}

# Returns when nothing of the hosts is left.
stop_hosts() {
  local name
  for name in "${!host_pids[@]}"; do kill -KILL "${host_pids[$name]}" 2>/dev/null || true; done
  wait
  host_pids=()
}
