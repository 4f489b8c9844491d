#!/bin/sh
# A process of this machine as one of another host, by name alone. So both programs take their ranks for those of several hosts, TCP between
# hosts, memory within, and both have the machine's loopback for a network.
#
#   as_host.sh HOST COMMAND…            in place of ssh, for mpirun's daemons (--mca plm_rsh_agent)
#   as_host.sh --each N PROGRAM ARG…    a rank that coppice-run has started: N of them a host, in blocks
if [ "$1" = --each ]; then
    export COPPICE_HOST="h$((COPPICE_RANK / $2))"
    shift 2
    exec "$@"
fi
host=$1
shift
map=""
[ "$(id -u)" = 0 ] || map=--map-root-user
# shellcheck disable=SC2086 # nothing, or a word
exec unshare $map --uts sh -c "hostname $host; exec sh -c '$*'"
