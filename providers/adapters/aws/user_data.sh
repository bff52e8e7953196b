#!/bin/bash
# What cloud-init runs at an EC2 machine's first boot: a program that is packed, since user data is
# small. The other variables are read back from it: the limits by whoever looks at the machine, the
# start by limit.sh.
: "${gpus_ttl_s?}" "${gpus_start?}" "${gpus_idle_s?}" "${packed:?}"
eval "$(printf %s "$packed" | base64 -d | gunzip)"
