#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# launch/env.sh COMMAND [ARG…]   runs COMMAND with what MPI and torch ranks need on one machine
# . launch/env.sh                sets the same in this shell
# Meant for one laptop, container or CI machine; on a cluster start cairn with the site's own launcher.
# A variable that is set already keeps its value.

cairn_default() {
  if [[ -z ${!1+set} ]]; then export "$1=$2"; fi
}

# Sockets live under TMPDIR and their paths end at 107 bytes: a long or missing one is replaced.
cairn_short_tmpdir() {
  if [[ -n ${TMPDIR:-} && ${#TMPDIR} -le 40 && -w $TMPDIR ]]; then return; fi
  local dir=/tmp/cairn-$EUID
  mkdir -m 700 "$dir" 2>/dev/null || true
  if [[ -L $dir || ! -O $dir || ! -d $dir ]]; then dir=$(mktemp -d /tmp/cairn-XXXXXX) || return; fi
  chmod 700 "$dir"
  export TMPDIR=$dir
}

cairn_short_tmpdir

# Open MPI 4 reads OMPI_MCA_*, Open MPI 5 takes the launcher's part from PRTE_MCA_*.
if [[ $EUID -eq 0 ]]; then
  cairn_default OMPI_ALLOW_RUN_AS_ROOT 1
  cairn_default OMPI_ALLOW_RUN_AS_ROOT_CONFIRM 1
  cairn_default PRTE_ALLOW_RUN_AS_ROOT 1
  cairn_default PRTE_ALLOW_RUN_AS_ROOT_CONFIRM 1
fi
cairn_default OMPI_MCA_rmaps_base_oversubscribe 1
cairn_default PRTE_MCA_rmaps_default_mapping_policy :oversubscribe
cairn_default OMPI_MCA_hwloc_base_binding_policy none
cairn_default PRTE_MCA_hwloc_default_binding_policy none
cairn_default OMPI_MCA_mpi_yield_when_idle 1

# Shared memory only: no search for network devices, no ssh, and no ptrace between ranks, which containers forbid.
cairn_default OMPI_MCA_pml ob1
cairn_default OMPI_MCA_btl ^tcp,openib,ofi,uct,usnic
cairn_default OMPI_MCA_btl_vader_single_copy_mechanism none
cairn_default OMPI_MCA_btl_sm_single_copy_mechanism none
cairn_default OMPI_MCA_oob_tcp_if_include lo
cairn_default PRTE_MCA_prte_if_include lo
if ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
  cairn_default OMPI_MCA_plm_rsh_agent false
  cairn_default PRTE_MCA_plm_ssh_agent false
fi
# PMIx's shared-memory store reports lock failures on stderr where /dev/shm or locks are restricted.
cairn_default PMIX_MCA_gds hash

# torch's ranks talk over the loopback, one thread each.
cairn_default GLOO_SOCKET_IFNAME lo
cairn_default OMP_NUM_THREADS 1

unset -f cairn_default cairn_short_tmpdir
if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  if [[ $# -eq 0 ]]; then
    echo "usage: launch/env.sh COMMAND [ARG…]" >&2
    exit 2
  fi
  exec "$@"
fi
