#!/bin/bash
# The guest's first process once it has the host's files: makes the RoCE devices, runs the command, powers off.
# /run/rxe-guest is shared with the host: settings, arguments and environment come from there, the exit code goes there.
exec </dev/null >/dev/console 2>&1
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
job=/run/rxe-guest
{ read -r devices; read -r shell; read -r rows columns; } <$job/settings

ln -s /proc/self/fd /dev/fd
for stream in 0:stdin 1:stdout 2:stderr; do
  ln -s "fd/${stream%:*}" "/dev/${stream#*:}"
done
for port in /sys/class/virtio-ports/vport*; do
  ln -s "/dev/${port##*/}" "/dev/$(<"$port/name")"
done
number=0
while read -r directory; do
  mount -t 9p -o rw,trans=virtio,version=9p2000.L,msize=512000,cache=none "writable$number" "$directory"
  number=$((number + 1))
done <$job/writable
hostname rxe-guest
ip link set lo up
# rxe does its work in soft interrupts. Without this, processes that poll would keep it waiting for milliseconds.
for process in $(pgrep ksoftirqd); do
  chrt -f -p 1 "$process"
done

# Device K is rxeK on the interface roceK with the address 10.99.0.(K+1), as if it were host K's: all are cabled to one
# bridge (portK is the other end of the cable), and as routing would find any local address without leaving the
# machine, the table of local addresses comes last and each interface has a table of its own. Addresses on the link
# are told in advance; there is nothing to resolve.
commands_for_network() {
  local k peer table
  echo "link add fabric type bridge"
  echo "link set fabric mtu 4200 up"
  for ((k = 0; k < devices; ++k)); do
    table=$((1000 + k))
    echo "link add roce$k mtu 4200 address $(hardware_address $k) type veth peer name port$k mtu 4200"
    echo "link set port$k master fabric up"
    echo "link set roce$k up"
    echo "addr add 10.99.0.$((k + 1))/24 dev roce$k noprefixroute"
    echo "route add local 10.99.0.$((k + 1)) dev roce$k table $table"
    echo "route add 10.99.0.0/24 dev roce$k table $table"
    echo "rule add pref $table iif roce$k lookup local"
    echo "rule add pref $((table + 1000)) oif roce$k lookup $table"
    for ((peer = 0; peer < devices; ++peer)); do
      ((peer == k)) || echo "neigh add 10.99.0.$((peer + 1)) lladdr $(hardware_address $peer) dev roce$k nud permanent"
    done
  done
  echo "rule add pref 3000 lookup local"
  echo "rule del pref 0"
}

hardware_address() { printf '02:00:0a:63:00:%02x' $(($1 + 1)); }

make_devices() {
  local k setting
  for setting in rp_filter=0 accept_local=1 arp_ignore=1 arp_announce=2; do
    for k in all default; do
      echo "${setting#*=}" >"/proc/sys/net/ipv4/conf/$k/${setting%=*}"
    done
  done
  commands_for_network | ip -batch - || return
  for ((k = 0; k < devices; ++k)); do
    rdma link add "rxe$k" type rxe netdev "roce$k" || return
  done
}

# Runs the command with the caller's environment, in the caller's directory; through the arguments, if there are any.
run_command() {
  local arguments environment
  mapfile -d '' arguments <$job/arguments
  mapfile -d '' environment <$job/environment
  ulimit -l unlimited
  ulimit -c 0
  cd "$(<$job/directory)" || cd / || return
  exec "$@" env -i "${environment[@]}" "${arguments[@]}"
}

finish() {
  echo "$1" >$job/exit_code
  sync $job/exit_code
  echo o >/proc/sysrq-trigger
  sleep 60
}

if ! make_devices; then
  echo "rxe-guest: the RoCE devices could not be made"
  finish 125
fi
if [ "$shell" = true ]; then
  stty rows "$rows" cols "$columns" </dev/hvc0
  (run_command setsid --ctty --wait) </dev/hvc0 >/dev/hvc0 2>&1
  finish $?
fi
# The readers end when nobody holds the other end of their pipe any more: so everything that the command has left
# running is ended first, and whatever was written is brought over, however slowly it is read.
mkfifo /run/stdout /run/stderr
cat /run/stdout >/dev/rxe-guest.stdout &
readers=" $! "
cat /run/stderr >/dev/rxe-guest.stderr &
readers+="$! "
(run_command) >/run/stdout 2>/run/stderr
code=$?
for process in /proc/[0-9]*; do
  process=${process#/proc/}
  [[ " 1 $readers" == *" $process "* ]] || kill -KILL "$process" 2>/dev/null
done
wait
finish $code
