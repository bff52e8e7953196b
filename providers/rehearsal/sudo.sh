#!/bin/sh
# What a rehearsal's stand-in has for a sudo: nobody becomes root of this computer by a rehearsal.
while [ "${1#-}" != "$1" ]; do shift; done
exec "$@"
