#!/bin/bash
# The part of start.sh that has rsync, by which a folder comes, before anything else is installed.

install_rsync() {
  command -v rsync >/dev/null || logged install_packages rsync ||
    give_up setup-failed 1 rsync could not be installed
}
