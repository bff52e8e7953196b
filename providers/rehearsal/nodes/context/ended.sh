#!/bin/sh
# The last program before this machine ends: keeps whether it powers off, reboots, or was halted, as
# it is when Docker or its host goes down.
echo "$1" >/etc/rehearsal/ended
