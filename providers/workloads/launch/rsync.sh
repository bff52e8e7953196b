#!/bin/bash
# The part of start.sh that has rsync, by which a folder comes, before anything else is installed.

install_rsync() {
  command -v rsync >/dev/null && return
  export DEBIAN_FRONTEND=noninteractive
  if ! { logged apt-get update -q && logged apt-get install -qy rsync; }; then
    say setup-failed 1 rsync could not be installed, see the log
    exit 1
  fi
}
