#!/bin/sh
# Stands for lsblk: the disks that outlive this machine, as `lsblk -dnro NAME,SERIAL` lists them.
while read -r _ link serial; do echo "disk/by-id/$link $serial"; done </etc/rehearsal/disks
