#!/bin/bash
# The power of one host of the lab, as a driver of opendrs switches it.
#   host-power.sh keep DIRECTORY PREFIX HOST      so that it can be switched at all
#   host-power.sh on|off|state DIRECTORY PREFIX HOST
#   host-power.sh boot DIRECTORY PREFIX HOST      runs DIRECTORY/HOST/boot there
# A host is what runs in its control groups. One process that does nothing keeps its
# namespaces while it is off. Each switch is noted in DIRECTORY/power.log. When it is
# switched on, it boots: libvirtd, and DIRECTORY/HOST/boot if there is such a program.
set -eu
word=$1 directory=$2 prefix=$3 host=$4
group=/sys/fs/cgroup/unified/$prefix-$host/cgroup.procs
keeper=$directory/$host/keeper.pid

join() { # the control groups of the host, with this process
  for kind in cpu cpuacct unified; do
    echo $BASHPID > "/sys/fs/cgroup/$kind/$prefix-$host/cgroup.procs"
  done
}
within() { # the other namespaces of the process $1
  exec setsid nsenter -t "$1" -m -u -C -n "${@:2}"
}
boot() { # what the host starts besides libvirtd
  [ -x "$directory/$host/boot" ] || return 0
  ( join; within "$(cat "$keeper")" "$directory/$host/boot" ) < /dev/null > /dev/null 2>&1 &
}
running() { grep -vx "$(cat "$keeper")" "$group"; }

case $word in
  keep)
    leader=$(cat "$directory/$host/libvirtd.pid")
    ( join; echo $BASHPID > "$keeper"; within "$leader" sleep infinity ) \
      < /dev/null > /dev/null 2>&1 &
    until [ -s "$keeper" ] && grep -qx sleep "/proc/$(cat "$keeper")/comm"; do sleep 0.05; done ;;
  on)
    echo "on $host" >> "$directory/power.log"
    [ -z "$(running)" ] || exit 0
    ( join; within "$(cat "$keeper")" libvirtd --listen \
        -f /etc/libvirt/libvirtd.conf -p "$directory/$host/libvirtd.pid" ) \
      < /dev/null >> "$directory/$host/log/stdout" 2>&1 &
    boot ;;
  boot) boot ;;
  off)
    echo "off $host" >> "$directory/power.log"
    sleep "${DELAY:-0}"
    for process in $(running); do kill -9 "$process" 2> /dev/null || true; done ;;
  state)
    [ -n "$(running)" ] ;;
esac
