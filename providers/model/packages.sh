#!/bin/bash
# Installs packages on a machine, also while that is busy with its own updates, or after it went
# down amid an installation.
#
# DPkg::Lock::Timeout waits for the lock of dpkg (apt.conf, apt 2.0). Nothing waits for that of the
# lists, nor does dpkg itself: all is tried again then. needrestart would restart services, this one
# too (its hook in apt does nothing with NEEDRESTART_SUSPEND, Ubuntu 22.04).

install_packages() {
  export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
  for pause in 5 10 30 60 0; do
    busy=""
    dpkg --force-confold --configure -a || busy=1
    apt-get update -q -o Acquire::Retries=3 || busy=1
    apt-get install -qy -o Acquire::Retries=3 -o DPkg::Lock::Timeout=600 \
      -o Dpkg::Options::=--force-confold "$@" && return
    [ -n "$busy" ] || return
    sleep "$pause"
  done
  return 1
}
