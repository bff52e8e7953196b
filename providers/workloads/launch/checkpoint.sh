#!/bin/bash
# The part of start.sh that syncs the folder of the checkpoints with a bucket's, there and back.
: "${kept:?}" "${to:?}" "${save_every:?}"
restored=""

sync_tool() {
  case "$to" in
    gs://*) command -v gcloud ;;
    *)
      command -v aws || python3 -m pip install -q awscli ||
        python3 -m pip install -q --break-system-packages awscli ||
        { apt-get update -q && apt-get install -qy awscli; }
      ;;
  esac
}

# copy FROM TO
copy() {
  case "$1$2" in
    *gs://*) gcloud -q storage rsync -r "$1" "$2" ;;
    *)
      aws s3 sync --only-show-errors \
        ${GPUS_S3_ENDPOINT:+--endpoint-url "$GPUS_S3_ENDPOINT"} "$1" "$2"
      ;;
  esac
}

# gcloud refuses a folder that is not there: nothing yet, where its bucket answers.
nothing_yet() {
  case "$to" in gs://*) ;; *) return 1 ;; esac
  bucket=${to#gs://}
  ! gcloud -q storage ls "$to" >/dev/null 2>&1 &&
    gcloud -q storage ls "gs://${bucket%%/*}" >/dev/null
}

fetched() { nothing_yet || copy "$to" "$kept"; }

# Once on a machine: what is here afterwards is newer than what is there.
restore() {
  if ! logged sync_tool; then
    say setup-failed 1 "what syncs with $to is not there and could not be installed, see the log"
    exit 1
  fi
  if [ "$(cat "$GPUS_ROOT/restored" 2>/dev/null)" != "$to" ]; then
    if ! tries fetched; then
      say setup-failed 1 "the checkpoints at $to could not be read, see the log"
      exit 1
    fi
    echo "$to" >"$GPUS_ROOT/restored"
  fi
  restored=1
}

# The first node alone saves, and never before all was restored: half of it would take the place of
# the whole.
saves() { [ -n "$restored" ] && [ "${GPUS_NODE_RANK:-0}" = 0 ]; }

save() {
  ! saves || logged copy "$kept" "$to" || echo "gpus: could not save to $to" >>"$GPUS_ROOT/log"
}

save_at_last() { ! saves || tries copy "$kept" "$to"; }

keep_saving() { while sleep "$save_every"; do save; done; }
