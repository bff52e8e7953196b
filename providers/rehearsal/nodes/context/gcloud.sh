#!/bin/sh
# Stands for gcloud, as Google's boot images bring it: every bucket is there, as a folder of this
# machine, and goes with it.
set -eu
buckets=/var/lib/rehearsal-buckets

folder_of() {
  case "$1" in
    gs://*) printf %s "$buckets/${1#gs://}" ;;
    *) printf %s "$1" ;;
  esac
}

[ "${1:-}" != -q ] || shift
case "${1:-} ${2:-}" in
  "storage ls")
    bucket=${3#gs://}
    mkdir -p "$buckets/${bucket%%/*}"
    ls "$(folder_of "$3")"
    ;;
  "storage rsync")
    shift 2
    [ "$1" != -r ] || shift
    to=$(folder_of "$2")
    mkdir -p "$to"
    rsync -a "$(folder_of "$1")/" "$to/"
    ;;
  *)
    echo "rehearsal stand-in: gcloud $*: only storage ls and storage rsync are there" >&2
    exit 1
    ;;
esac
