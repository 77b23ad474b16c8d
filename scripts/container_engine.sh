#!/usr/bin/env bash
# A Docker engine for the tests marked requires_docker. All that it has lies below one folder.
#
#   export DOCKER_HOST=$(scripts/container_engine.sh start FOLDER)   # half a minute
#   python -m pytest -m requires_docker tests/execution tests/cli/test_run.py
#   scripts/container_engine.sh stop FOLDER
#
# Needs root, and the Debian packages docker.io and debootstrap. The image is made of Debian's own
# packages, not pulled; no network interface, firewall rule or service of this machine is touched.
set -euo pipefail
image=python:3.11-slim
[[ $# = 2 && $1 =~ ^(start|stop)$ ]] || { sed -n '2,9s/^# \?//p' "$0" >&2; exit 2; }
case $2 in /*) folder=$2 ;; *) folder=$PWD/$2 ;; esac
export DOCKER_HOST=unix://$folder/docker.sock PATH=$PATH:/usr/sbin:/sbin

fail() {
  printf '%s\n' "$1" >&2
  exit 1
}

# Start the engine in mount and process namespaces of its own: they end with their first process,
# and take along what the engine started and mounted.
start() {
  [ "$(id -u)" = 0 ] || fail "a container engine needs root"
  mkdir "$folder"
  for made in /etc/docker /run/docker; do [ -e "$made" ] || echo "$made"; done >"$folder/made"
  debootstrap --variant=minbase --include=python3-minimal bookworm "$folder/root" >"$folder/debootstrap.log" ||
    fail "debootstrap: $(tail -n 1 "$folder/debootstrap.log")"
  setsid unshare --mount --pid --fork --kill-child --mount-proc dockerd \
    --data-root "$folder/data" --exec-root "$folder/exec" --pidfile "$folder/dockerd.pid" --host "$DOCKER_HOST" \
    --bridge=none --iptables=false --ip6tables=false --ip-forward=false \
    </dev/null >"$folder/dockerd.log" 2>&1 &
  echo $! >"$folder/pid"
  SECONDS=0
  until docker version >"$folder/answer" 2>&1; do
    [ "$SECONDS" -lt 60 ] && kill -0 $! || fail "dockerd: $(tail -n 1 "$folder/dockerd.log")"
    sleep 0.2
  done
  tar --directory="$folder/root" --create . | docker import - "$image" >"$folder/answer"
  rm -rf "$folder/root"
  echo "$DOCKER_HOST"
}

stop() {
  [ -e "$folder/made" ] || return 0
  if [ -e "$folder/pid" ]; then
    pid=$(cat "$folder/pid")
    pkill --signal TERM --parent "$pid" || true  # dockerd, whose end is that of all
    for _ in $(seq 50); do
      [ -e "$folder/dockerd.pid" ] || break
      sleep 0.2
    done
    kill -KILL "$pid" 2>/dev/null || true
  fi
  xargs --no-run-if-empty rm -rf <"$folder/made"
  rm -rf "$folder"
}

"$1"
