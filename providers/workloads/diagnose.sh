#!/bin/sh
# Looks at what may be wrong with a GPU machine, and prints for each look its name, exit code and
# output. Changes nothing. The fields are those of `nvidia-smi --help-query-gpu`, driver 580.
: "${prefix:?}" "${stand_in?}"

look() { # name command...
  name=$1
  shift
  found=$("$@" 2>/dev/null)
  printf '%s %s %s\n%s\n' "$prefix" "$name" "$?" "$found"
}

cards() { nvidia-smi --format=csv,noheader,nounits --query-gpu="$1"; }
kernel() { dmesg 2>/dev/null | grep "$@" | tail -n 3; }

look gpus cards index,name,memory.used,memory.total
# On a rehearsal's stand-in all else would tell of the computer that it runs on.
[ -z "$stand_in" ] || exit 0
look torch python3 -c '
import torch
print(torch.__version__, torch.version.cuda, torch.cuda.device_count())'
look visible printf '%s\n' "${CUDA_VISIBLE_DEVICES-unset}"
look xid kernel -o 'NVRM: Xid.*'
look oom kernel -iE 'out of memory|oom-kill'
look apps nvidia-smi --format=csv,noheader,nounits --query-compute-apps=pid,used_memory,process_name
look topology nvidia-smi topo -m
look pcie cards index,pcie.link.width.current,pcie.link.width.max,utilization.gpu
slowed=clocks_event_reasons.hw_slowdown,clocks_event_reasons.hw_thermal_slowdown
look throttle cards "index,$slowed,temperature.gpu"
shm() { df -m /dev/shm | awk 'NR == 2 {print $2}'; }
look shm shm
disk() { df -P / | awk 'NR == 2 {print $5}'; }
look disk disk
load() { printf '%s %s\n' "$(cut -d' ' -f1 /proc/loadavg)" "$(nproc)"; }
look load load
nccl() { env | grep '^NCCL_' | sort; }
look nccl nccl
