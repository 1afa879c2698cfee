#!/usr/bin/env bash
# A Slurm cluster of one node, on this machine and for as long as it takes: starts munged, slurmctld and slurmd, runs a
# configuration through `snakemake --executor slurm` (the smoke runs, unless another is given), and stops them again.
# Everything of theirs is in a folder in /tmp; no system service, and no file of /etc, is read or changed.
#
#   workflow/one_node_slurm.sh [--install] [CONFIGURATION] [OPTION OF SNAKEMAKE ...]
#
# --install: first install the packages with apt-get, as root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PATH:/usr/sbin

if [ "${1:-}" = --install ]; then
    shift
    apt-get install --yes --no-install-recommends slurm-wlm munge
fi
for program in munged slurmctld slurmd sbatch squeue; do
    if ! command -v "$program" >/dev/null; then
        echo "error: $program is missing. Install Debian's packages slurm-wlm and munge, or run: $0 --install" >&2
        exit 2
    fi
done
snakemake=${SNAKEMAKE:-.venv/bin/snakemake}
if ! command -v "$snakemake" >/dev/null; then
    echo "error: $snakemake is missing. Run: make workflow" >&2
    exit 2
fi

configuration=workflow/smoke.yaml
case ${1:-} in *.yaml | *.yml) configuration=$1 && shift ;; esac

state=$(mktemp -d -t one-node-slurm.XXXXXX)
mkdir "$state/controller" "$state/node"
chmod 755 "$state" # munged wants to be sure of the folders above its socket
user=$(id -un)
node=$(hostname -s)
export SLURM_CONF=$state/slurm.conf
# On ports of its own, so that a real Slurm on this machine is left alone.
cat >"$SLURM_CONF" <<EOF
ClusterName=onenode
SlurmctldHost=$node(127.0.0.1)
SlurmUser=$user
SlurmdUser=$user
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
AuthInfo=socket=$state/munge.socket
CredType=cred/munge
StateSaveLocation=$state/controller
SlurmdSpoolDir=$state/node
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
NodeName=$node NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$(awk '/MemTotal/ {print int($2 / 1024)}' /proc/meminfo) State=UNKNOWN
PartitionName=main Nodes=$node Default=YES MaxTime=INFINITE State=UP
EOF

# The executor takes SLURM_CONF from the srun inside a job; this one finds its way back.
mkdir "$state/bin"
printf '#!/bin/sh\nSLURM_CONF=%s exec %s "$@"\n' "$SLURM_CONF" "$(command -v srun)" >"$state/bin/srun"
chmod +x "$state/bin/srun"
PATH=$state/bin:$PATH

pids=()
stop() {
    scancel --quiet --user="$user" 2>/dev/null || true
    # The last one started is the first to go.
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        kill "${pids[i]}" 2>/dev/null && wait "${pids[i]}" 2>/dev/null || true
    done
    rm -rf "$state"
    echo "Slurm is stopped."
}
trap stop EXIT
trap 'exit 130' INT TERM

(umask 077 && head -c 128 /dev/urandom >"$state/munge.key")
munged --foreground --key-file="$state/munge.key" --socket="$state/munge.socket" --pid-file="$state/munged.pid" \
    --seed-file="$state/munged.seed" --log-file="$state/munged.log" 2>"$state/munged.err" &
pids+=($!)
for _ in $(seq 50); do [ -S "$state/munge.socket" ] && break || sleep 0.2; done
slurmctld -D -f "$SLURM_CONF" >"$state/slurmctld.log" 2>&1 &
pids+=($!)
slurmd -D -f "$SLURM_CONF" -N "$node" >"$state/slurmd.log" 2>&1 &
pids+=($!)
for _ in $(seq 60); do
    [ "$(sinfo --noheader --format=%T 2>/dev/null)" = idle ] && break || sleep 0.5
done
if [ "$(sinfo --noheader --format=%T 2>/dev/null)" != idle ]; then
    echo "error: the node did not come up. What the daemons said:" >&2
    tail -n 20 "$state"/*.log "$state"/*.err >&2
    exit 1
fi
sinfo

# Without an accounting database there is no sacct, and the executor would wait for its answer for ever.
"$snakemake" --profile workflow/slurm --configfile "$configuration" --jobs 1 \
    --slurm-status-command squeue --slurm-init-seconds-before-status-checks 5 --default-resources \
    slurm_partition=main cpus_per_task=1 mem_mb=4000 runtime=60 "$@"
