#!/bin/bash
# Gives buckets their declared paths: Vertex AI mounts all that the job's account may read under
# /gcs (Google, "Use Cloud Storage as a mounted file system", 2026-11).
declare -a mount_paths mount_targets
for index in "${!mount_paths[@]}"; do
  path=${mount_paths[index]} target=${mount_targets[index]}
  if ! ls "${target%/}" >/dev/null || ! mkdir -p "$(dirname -- "$path")" ||
    ! ln -sfn "${target%/}" "$path"; then
    echo "gpus: $target could not be mounted at $path: is it there, and may the job read it?" >&2
    exit 1
  fi
done
