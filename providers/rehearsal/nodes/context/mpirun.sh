#!/bin/sh
# Stands for mpirun: starts the command once a slot of the hostfile, on other machines over ssh, and
# ends with the worst of their codes.
echo "rehearsal stand-in: mpirun $*"
hosts="" total=1
while [ $# != 0 ]; do
  case "$1" in
    --hostfile) hosts=$2 ;;
    -np) total=$2 ;;
    --mca) shift ;;
    -*) ;;
    *) break ;;
  esac
  shift 2
done
codes=$(mktemp)
rank=0
while read -r host slots; do
  for _ in $(seq "${slots#slots=}"); do
    [ "$rank" -lt "$total" ] || break
    it="OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=$total"
    if [ "$host" = "$GPUS_ADDRESS" ]; then there="sh"; else there="ssh $host sh"; fi
    (
      echo "export $it; $*" | $there
      echo $? >>"$codes"
    ) &
    rank=$((rank + 1))
  done
done <"$hosts"
wait
exit "$(sort -n "$codes" | tail -n 1)"
