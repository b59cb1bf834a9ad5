# For the cases: checks, disks and a tree. A case fails when one of its checks fails; it goes on, so that one run shows all.
set -u
export NO_COLOR=1
ulimit -l unlimited # for BPF before Linux 5.11
wrong=0

ok() { echo "ok: $*"; }
wrong() { echo "WRONG: $*"; wrong=1; }
# check NAME COMMAND...: the command succeeds.
check() {
  local name=$1 status
  shift
  "$@" && ok "$name" && return
  status=$?
  wrong "$name: $* exits with $status"
}
# same NAME EXPECTED ACTUAL
same() {
  if [ "$2" = "$3" ]; then ok "$1"; else wrong "$1: expected $(head -c 300 <<<"$2"), got $(head -c 300 <<<"$3")"; fi
}
# same_files NAME EXPECTED ACTUAL
same_files() {
  if cmp -s "$2" "$3"; then ok "$1"; else
    wrong "$1: < expected, > fathom"
    diff <(tr '\0' '\n' <"$2") <(tr '\0' '\n' <"$3") | head -n 10
  fi
}
# unlike NAME REGEX TEXT: the text has no such line.
unlike() {
  if grep -E "$2" <<<"$3"; then wrong "$1: the line above"; else ok "$1"; fi
}
finish() { exit "$wrong"; }

# /scratch is an ext4 on the disk of the guest, for images, results and files.
scratch() {
  mkfs.ext4 -qF /dev/vdd
  mkdir -p /scratch
  mount /dev/vdd /scratch
}
# disk KIND: a new file system on a loop device, at /scratch/KIND.
disk() {
  local at=/scratch/$1 image=/scratch/$1.image
  mkdir -p "$at"
  case $1 in
    tmpfs) mount -t tmpfs -o noatime tmpfs "$at" ;;
    overlay)
      mkdir -p /scratch/lower /scratch/upper /scratch/work
      mount -t overlay -o noatime,lowerdir=/scratch/lower,upperdir=/scratch/upper,workdir=/scratch/work overlay "$at"
      ;;
    *)
      truncate -s 400M "$image"
      "mkfs.$1" -q "$image"
      mount -o loop,noatime "$image" "$at"
      ;;
  esac
}

# The server of a case is this guest, or another one that `tools/guest --clients` starts.
if [ -n "${SERVER:-}" ]; then server=$SERVER clients=10.0.0.0/24 link=eth0; else server=127.0.0.1 clients=$server link=lo; fi
# on GUEST COMMAND...: runs a command or a function of this script in another guest.
on() {
  local connection status guest=$1
  shift
  exec {connection}<>"/dev/tcp/$guest/7000" || return
  printf '%s\n%s\0' "$(declare -f)" "${*@Q}" >&"$connection"
  read -r status <&"$connection"
  cat <&"$connection"
  exec {connection}>&-
  return "$status"
}
on_server() { if [ -n "${SERVER:-}" ]; then on "$SERVER" "$@"; else "$@"; fi; }
# on_clients COMMAND...: in all clients, this one included.
on_clients() {
  local guest
  "$@" || return
  for guest in ${CLIENTS:+${CLIENTS#client1}}; do on "$guest" "$@" || return; done
}
# ranks GUESTS EACH COMMAND...: an MPI job with EACH ranks in every one of the guests, whose names are one word. It gives up a guest
# that has not answered for 11 s: Open MPI itself waits for eight minutes.
ranks() {
  local each=$2 hosts
  hosts=$(printf ",%s:$each" $1)
  shift 2
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --host "${hosts#,}" --map-by node --oversubscribe \
    --mca plm_rsh_agent "$GUEST/agent" --mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 \
    --mca oob_tcp_keepalive_time 5 --mca oob_tcp_keepalive_intvl 2 --mca oob_tcp_keepalive_probes 3 "$@"
}
# round_trip [MS]: of requests to the server, in milliseconds; without MS, that of the link itself. The clients reach each other
# without delay. The queue is long enough: a packet that is dropped costs a time-out of TCP.
round_trip() {
  local us=$((${1:-0} * 1000))
  [ -n "${SERVER:-}" ] || us=$((us / 2)) # both directions pass the interface lo
  on_server delay "$link" "$us"
}
delay() {
  tc qdisc del dev "$1" root 2>/dev/null
  [ "$2" = 0 ] || tc qdisc add dev "$1" root netem delay "$2us" limit 100000
}

# exports DIR OPTIONS: DIR on the server.
exports() { on_server eval "echo '$1 $clients($2,no_root_squash,no_subtree_check)' >/etc/exports; exportfs -ra; exportfs -f"; }
# nfs_server [SECONDS]: an NFS server, with a grace period of so long; what it exports is up to exports.
nfs_server() { on_server nfs_server_here "$@"; }
nfs_server_here() {
  mount -t nfsd nfsd /proc/fs/nfsd
  mkdir -p /run/rpc_pipefs /run/rpcbind /var/lib/nfs/v4recovery
  mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
  rpcbind -w 2>/dev/null || rpcbind
  rpc.mountd --no-nfs-version 3 2>/dev/null || rpc.mountd
  rpc.nfsd --grace-time "${1:-10}" --lease-time "${1:-10}" 8
}

# Ends the server, so that nothing keeps the mounts of this case.
nfs_stop() { on_server nfs_stop_here; }
nfs_stop_here() {
  rpc.nfsd 0
  exportfs -ua
  pkill rpc.mountd
}

# tree DIR: some hundred entries of every kind.
tree() {
  mkdir -p "$1"
  cp -a /etc "$1"
  mkdir "$1/odd" "$1/deep"
  (
    cd "$1/odd" || exit
    : >$'new\nline'
    : >$'\xff\xfe'
    : >"$(printf 'n%.0s' {1..255})"
    : >-n
    ln "$1/etc/passwd" hard
    ln -s nowhere dangling
    ln -s "$(printf 'l%.0s' {1..900})" long
    mkfifo fifo
    mknod zero c 1 5
    mknod loop b 7 0
    truncate -s 1G sparse
    printf x | dd of=sparse bs=1 seek=536870913 conv=notrunc status=none
    printf data >xattrs
    setfattr -n user.comment -v some xattrs 2>/dev/null
    setfacl -m u:1000:rw xattrs 2>/dev/null
    chmod 6751 hard
    touch -d '1969-12-31T23:59:59.123456789Z' old 2>/dev/null || : >old
  )
  (
    cd "$1/deep" || exit
    for level in {1..20}; do
      mkdir "$level-$(printf 'd%.0s' {1..40})"
      cd "$level"-* || exit
      : >file
    done
  )
  sync -f "$1"
}

# shared_tree DIR: files and directories, as every network file system has them.
shared_tree() {
  mkdir -p "$1/deep"
  cp -rL /etc "$1/etc" 2>/dev/null
  (
    cd "$1/deep" || exit
    for level in {1..10}; do
      mkdir "$level-$(printf 'd%.0s' {1..20})"
      cd "$level"-* || exit
      echo "$level" >"file $level"
    done
  )
  printf x | dd of="$1/sparse" bs=1 seek=10485760 status=none
  sync -f "$1"
}

# What must hold in /scratch/remote, which has a shared_tree: engines, changes, archives and experiments. Leaves the result of
# probe in /run/json.
remote_cases() {
  cd /scratch/remote || exit
  find . >/run/out # whose attributes a client may only now have
  # The blocks of a directory on SMB depend on the request that the client got its attributes by.
  local blocks='s/^(d( [^ ]+){6}) [0-9]+/\1/'
  by_find tree | sed -zE "$blocks" >/run/expected
  for engine in stat threads; do
    by_fathom tree "$engine" | sed -zE "$blocks" >/run/actual
    same_files "walk by $engine: as find" /run/expected /run/actual
  done
  fathom walk tree --catalog /run/catalog --quiet >/run/out
  same "changed names nothing" "" "$(fathom changed tree --since /run/catalog --format paths)"
  sleep 2 # longer than the client keeps attributes
  echo more >>tree/etc/passwd
  echo new >tree/new
  rm tree/etc/fstab
  mv tree/etc/group tree/etc/renamed
  sleep 2
  fathom changed tree --since /run/catalog --format ndjson >/run/changes
  for name in new etc/passwd etc/fstab etc/renamed; do
    check "changed names $name" grep -q "\"$name\"" /run/changes
  done
  grep -vE '"(\.|new|etc(/(passwd|fstab|group|renamed))?)"' /run/changes >/run/others
  same_files "changed names nothing else" /dev/null /run/others
  fathom dump tree -o /run/archive.tar --quiet || wrong "dump exits with $?"
  check "GNU tar compares the archive" tar --compare -f /run/archive.tar
  mkdir out
  fathom restore /run/archive.tar -C out --quiet 2>/run/stderr
  echo "restore: exit $?: $(head -n 3 /run/stderr)"
  check "what was restored has the same contents" diff -r tree out/tree
  begun=$SECONDS
  fathom probe /scratch/remote --json --no-progress >/run/json 2>/run/stderr
  echo "probe: exit $?, $((SECONDS - begun)) s: $(head -c 500 /run/stderr)"
  judge probe /run/json 'answer|hung' # many requests take longer than the time limit
  same "probe compares no block with the size of a transfer" '[]' \
    "$(jq -c '.result.experiments | map(select(.name == "allocation-block" and .truth != null))' /run/json)"
  cd / || exit
}

# An experiment may say that it cannot tell, but not something wrong.
judge() { # NAME FILE [REGEX]
  same "$1: disagrees with the kernel" '[]' "$(jq -c '.result.experiments | map(select(.agrees == false) | [.name, .inferred, .truth])' "$2")"
  unlike "$1: nothing stopped answering" "${3:-answer|hung|time limit|too long}" "$(jq -r '.warnings[].message, (.result.experiments[] | select(.inferred == null) | "\(.name): \(.method)")' "$2")"
  jq -r '.result.experiments[] | "  \(.name) \(.inferred) \(.unit) (\(.truth)) in \(.seconds) s"' "$2"
}

# Name, kind, inode, mode, links, owner, group, size, blocks, mtime and ctime of every entry, by find(1), and the same by fathom.
by_find() { find "$1" -printf "%y %i %m %n %U %G %s %b %T@ %C@ %p\\0" | LC_ALL=C sort -z; }
by_fathom() { # DIR ENGINE
  fathom walk "$1" --engine "$2" --format ndjson --no-progress | python3 -c '
import base64, json, sys
letters = {"symlink": "l", "fifo": "p", "char": "c", "char-device": "c", "block": "b", "socket": "s", "file": "f", "directory": "d"}
rows = []
for line in sys.stdin:
    e = json.loads(line)
    path = base64.b64decode(e["path_b64"]) if e.get("path_b64") else e["path"].encode()
    mode = "%o" % int(e["mode"], 8)
    text = "%s %d %s %d %d %d %d %d %s0 %s0 " % (letters.get(e["type"], e["type"]), e["ino"], mode, e["nlink"], e["uid"], e["gid"],
        e["size"], e["blocks"], e["mtime"], e["ctime"])
    rows.append(text.encode() + path)
rows.sort()
sys.stdout.buffer.write(b"".join(row + b"\0" for row in rows))'
}
