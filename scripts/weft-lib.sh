# shellcheck shell=sh
# weft-lib.sh: functions that the scripts of a node share.  Read by them, never run.
#
# The configuration of a node, all below $root (which is / but for tests and
# images):
#   etc/weft/weft.conf       WEFT_ADMIN, WEFT_TLS, WEFT_NODE
#   etc/weft/tls/            the CA, this node's certificate and key
#   etc/weft/processes/      a folder for each process that has a certificate of its
#                            own: disk-NAME, by disks/NAME.conf, or array-NAME.  In it
#                            tls/, and conf, by which the process finds that (WEFT_TLS)
#   etc/weft/disks/NAME.conf DISK, UUID, ADDRESS, PORT, URI of a disk that it serves;
#                            REPLACES while it takes the place of another one
# A file is there as a whole or not at all.

umask 077
PATH=$PATH:/usr/sbin:/sbin
LC_ALL=C # names of disks are bytes
export PATH LC_ALL
me=${0##*/}
root='' work=''
ask=true

# The same for all of them; those of weftctl where it has them.
# shellcheck disable=SC2034 # used by the scripts
OK=0 FAILED=1 USAGE=2 REFUSED=3 UNREACHABLE=4 UNTRUSTED=5 UNWANTED=6 LATE=7

# plain: a text on stdin, without what a terminal would take for orders, as weftctl prints
# it (common/strike.h), but without bytes that are no UTF-8: names and labels may be
# anybody's.
plain ()
{
  iconv -c -f UTF-8 -t UTF-8 | sed 's/\xc2[\x80-\x9f]/?/g; s/\xd8\x9c/?/g
    s/\xe2\x80[\x8e\x8f\xaa-\xae]/?/g; s/\xe2\x81[\xa6-\xa9]/?/g; s/[\x01-\x1f\x7f]/?/g'
}

# One line, whatever line breaks are in texts of others.
say ()
{
  printf '%s\n' "$(printf %s "$me: $*" | tr '\n' ' ')" | plain
}

# die STATUS WORDS
die ()
{
  die_status=$1
  shift
  say "$*" >&2
  exit "$die_status"
}

# is_uuid TEXT: is it a UUID as weftctl prints it?  weftd's answers are checked by this
# before they get into a file, a unit's name or a command: a wrong weftd may put a line
# break, and so a setting, into any text.
is_uuid ()
{
  case $1 in
    *[!0-9a-f-]*) return 1 ;;
    ????????-????-????-????-????????????) ;;
    *) return 1 ;;
  esac
}

# need PROGRAM...
need ()
{
  for need_program; do
    command -v "$need_program" >/dev/null ||
      die "$FAILED" "$need_program: not found; install the Debian package" \
        "that has it (curl, jq, openssl, util-linux, weftctl)"
  done
}

# others_write FOLDER: may another user make files in it?  As in common/folder.c, root's
# group and that of this process count as ours.  A link has the modes of its target.
others_write ()
{
  [ -n "$(find "$1" -maxdepth 0 \( ! -uid 0 ! -uid "$(id -u)" -o ! -type l ! -perm -1000 \
    \( -perm -0002 -o -perm -0020 ! -gid 0 ! -gid "$(id -g)" \) \) 2>/dev/null)" ]
}

use_root ()
{
  root=$1
  [ "$root" != / ] || root=''
  [ -z "$root" ] || root=$(realpath -m -- "$root")
  etc=$root/etc/weft
  for use_folder in "$root/" "$root/etc" "$etc"; do
    ! others_write "$use_folder" ||
      die "$FAILED" "$use_folder: another user owns it or may write to it, and so could" \
        "put links there; give it to root, with mode 755"
  done
}

# One script at a time changes a node's configuration.  The timer's weft-renew may be at
# work whenever an administrator starts one, so the second waits.  Other users cannot open
# the lock file: a user who may open a file or folder to read may lock it for ever.
lock ()
{
  make_directory "$etc"
  (umask 077; : >>"$etc/lock")
  exec 9<"$etc/lock"
  lock_waits
}

lock_waits ()
{
  flock -n 9 && return
  say "another Weft script is at work on this host; waiting until it has ended"
  flock -w 120 9 || die "$FAILED" "another Weft script has been at work on this host" \
    "for two minutes; try again when it has ended"
}

unlock ()
{
  exec 9<&-
}

# All users may read both; secrets are in tls/.
make_directory ()
{
  (umask 022; mkdir -p "$1")
}

# write_file PATH: writes stdin to this file, durably and atomically.
write_file ()
{
  cat >"$1.new"
  chmod 644 "$1.new"
  sync "$1.new"
  mv -f "$1.new" "$1"
  sync "$(dirname "$1")"
}

# conf_line KEY VALUE: a line of a file of settings, quoted where systemd would take the
# value for another one (EnvironmentFile= in systemd.exec(5)).
conf_line ()
{
  case $2 in
    *[!A-Za-z0-9/._:@+=,-]*)
      printf '%s="%s"\n' "$1" "$(printf %s "$2" | sed 's/[\\"$`]/\\&/g')"
      ;;
    *) printf '%s=%s\n' "$1" "$2" ;;
  esac
}

# unquoted: a value on stdin, as systemd reads it.
unquoted ()
{
  sed -e 's/^[[:blank:]]*//; s/[[:blank:]]*$//' \
    -e "/^'.*'\$/{ s/^'//; s/'\$//; b; }" \
    -e '/^".*"$/{ s/^"//; s/"$//; s/\\\([\\"$`]\)/\1/g; b; }' \
    -e 's/\\\(.\)/\1/g'
}

# setting FILE KEY: the value of a line KEY=VALUE.
setting ()
{
  sed -n "s/^$2=//p" "$1" 2>/dev/null | tail -n 1 | unquoted
}

# conf_of DISK: the file of settings by which the disk at this path is served.
conf_of ()
{
  for conf_of_file in "$etc"/disks/*.conf; do
    [ -f "$conf_of_file" ] || continue
    if [ "$(readlink -f -- "$(setting "$conf_of_file" DISK)")" = \
        "$(readlink -f -- "$1")" ]; then
      printf '%s\n' "$conf_of_file"
      return
    fi
  done
  return 1
}

# unit_of CONF: the unit that serves the disk.
unit_of ()
{
  echo "weft-disk@$(basename "$1" .conf).service"
}

# The name of this host, unless a setting has another.
host_name ()
{
  uname -n | cut -d. -f1 | tr '[:upper:]' '[:lower:]' | tr -c 'a-z0-9\n' '-'
}

# Is this node enrolled?  Takes what its configuration says.
enrolled ()
{
  [ -f "$etc/weft.conf" ] && [ -f "$etc/tls/client-cert.pem" ] || return 1
  node=$(setting "$etc/weft.conf" WEFT_NODE)
  admin=$(setting "$etc/weft.conf" WEFT_ADMIN)
}

must_be_enrolled ()
{
  enrolled || die "$FAILED" "$etc/weft.conf: this host is not a node of a" \
    "cluster; weft-enroll makes it one"
}

weftctl_here ()
{
  WEFT_CONF=$etc/weft.conf weftctl "$@"
}

# Before anything is done that would be in vain.
must_be_admin ()
{
  whoami=$(weftctl_here whoami --json) || exit
  [ "$(printf %s "$whoami" | jq -r .role)" = admin ] ||
    die "$REFUSED" "this needs an administrator: log in here by weftctl login," \
      "or name the file of a token by WEFT_TOKEN_FILE"
}

systemd_runs ()
{
  [ -z "$root" ] && [ -d /run/systemd/system ]
}

# question WORDS: yes is "yes".  Without a terminal nothing is asked.
confirm ()
{
  $ask || return 0
  [ -t 0 ] || die "$UNWANTED" "there is no terminal to ask on, so nothing was" \
    "done; add --yes if it is meant"
  printf '%s [type yes] ' "$(printf %s "$*" | plain)" >&2
  read -r confirm_answer || confirm_answer=''
  [ "$confirm_answer" = yes ] ||
    die "$UNWANTED" "nothing was done, as you did not say yes"
}

# --- HTTPS ---------------------------------------------------------------------

# call CA METHOD PATH [CURL-OPTION...]: the reply goes to $work/reply; prints
# the status, 000 when there was none.  A body comes on stdin (--data-binary @-):
# nothing that is secret stands among the arguments.
call ()
{
  call_ca=$1 call_method=$2 call_path=$3
  shift 3
  : >"$work/reply"
  curl -sS --noproxy '*' --tlsv1.2 --max-time 30 --cacert "$call_ca" -X "$call_method" \
    -o "$work/reply" -w '%{http_code}' "$@" "$admin$call_path" \
    2>"$work/curl" || true
}

# As this node.
call_as_node ()
{
  [ ! -f "$etc/tls/ca-crl.pem" ] || set -- "$@" --crlfile "$etc/tls/ca-crl.pem"
  call "$etc/tls/ca-cert.pem" "$@" --cert "$etc/tls/client-cert.pem" \
    --key "$etc/tls/client-key.pem"
}

# The reason in weftd's reply.
reason ()
{
  jq -r '.detail? // .title? // empty' <"$work/reply" 2>/dev/null | head -n 1 |
    grep . || { [ -s "$work/curl" ] && head -n 1 "$work/curl"; } ||
    echo "no reason was given"
}

# Does the server there have other CAs than the one that signed this node's certificate?
# Any server may answer this, so the result only chooses a message.
other_ca ()
{
  curl -sS --noproxy '*' --max-time 30 --insecure -f -o "$work/other.pem" \
    "$admin/ca.pem" 2>/dev/null || return 1
  openssl x509 -in "$work/other.pem" -noout 2>/dev/null &&
    ! openssl verify -no_check_time -CAfile "$work/other.pem" \
      "$etc/tls/client-cert.pem" >/dev/null 2>&1
}

# failed_call STATUS WHAT: ends in the way that the HTTP status asks for.
failed_call ()
{
  case $1 in
    000)
      # curl's words for a certificate that is expired or not yet valid.
      ! grep -q 'not yet valid\|has expired' "$work/curl" ||
        die "$FAILED" "$2: $(reason); see that the clock of this host is right" \
          "($(date)), and weftd's"
      failed_reason=$(reason)
      if [ -f "$etc/tls/client-cert.pem" ] && other_ca; then
        die "$UNTRUSTED" "$2: the CA of the cluster at $admin is not the one of" \
          "this node's certificate: it was changed (weftctl ca rotate) while this node" \
          "was away, or weftd was set up again. Enroll this node again:" \
          "weft-leave --forgotten, then weft-enroll with a new token and --keep" \
          "($failed_reason)"
      fi
      die "$UNREACHABLE" "$2: weftd at $admin does not answer: $failed_reason"
      ;;
    5??) die "$FAILED" "$2: $(reason)" ;;
    *) die "$REFUSED" "$2: refused by weftd: $(reason)" ;;
  esac
}

# --- Certificates --------------------------------------------------------------

fingerprint_of ()
{
  openssl x509 -in "$1" -noout -fingerprint -sha256 2>/dev/null |
    sed 's/^.*=//; s/://g' | tr 'A-F' 'a-f'
}

# address_in CERTIFICATE: the first address that it is for.
address_in ()
{
  openssl x509 -in "$1" -noout -ext subjectAltName | tr ',' '\n' |
    sed -n 's/^ *IP Address:\([0-9a-fA-F.:]*\)$/\1/p' | head -n 1
}

# make_request DIR ADDRESS [PROCESS]: a new key, and a request for a certificate of it.
make_request ()
{
  openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 \
    -out "$1/server-key.pem" 2>"$work/openssl" &&
    openssl req -new -key "$1/server-key.pem" -subj "/CN=$node" \
      -addext "subjectAltName=DNS:$node,IP:$2${3:+,URI:weft:$3}" -out "$1/csr.pem" \
      2>>"$work/openssl" && return
  die "$FAILED" "openssl: $(tail -n 1 "$work/openssl")"
}

# take_certificate DIR CA: from weftd's reply; it must be of this CA and for the key that
# is there.
take_certificate ()
{
  jq -er .certificate "$work/reply" >"$1/server-cert.pem" 2>/dev/null ||
    die "$FAILED" "weftd's answer has no certificate"
  check_certificate "$1" "$2"
}

# check_certificate DIR CA [OPTION]: the option is one of openssl verify.
check_certificate ()
{
  # shellcheck disable=SC2086 # an option, or none
  openssl verify ${3:-} -CAfile "$2" "$1/server-cert.pem" \
    >/dev/null 2>"$work/openssl" ||
    die "$FAILED" "the certificate from weftd is not of its CA:" \
      "$(tail -n 1 "$work/openssl")"
  [ "$(openssl x509 -in "$1/server-cert.pem" -noout -pubkey)" = \
    "$(openssl pkey -in "$1/server-key.pem" -pubout)" ] ||
    die "$FAILED" "the certificate from weftd is for another key"
}

# next_certificate DIR [PROCESS]: a new key and its certificate, by this node's present
# one: for the node, or for that process ("disk:UUID", "array:NAME").
next_certificate ()
{
  make_request "$1" "$(address_in "$etc/tls/server-cert.pem")" ${2:+"$2"}
  status=$(jq -n --rawfile csr "$1/csr.pem" '{csr: $csr}' |
    call_as_node POST "/api/v1/nodes/$node/certificate" --data-binary @- \
      -H 'Content-Type: application/json')
  [ "$status" = 201 ] || {
    rm -rf "$1"
    [ "$status" != 422 ] || [ -z "${2:-}" ] || die "$REFUSED" "weftd at $admin is of" \
      "an earlier version, and makes no process certificates; upgrade it ($(reason))"
    failed_call "$status" "getting the next certificate of node $node${2:+ for $2}"
  }
  take_certificate "$1" "$etc/tls/ca-cert.pem"
  rm -f "$1/csr.pem"
}

# give_key DIR GROUP: the key in it is for root and this group, the rest for everybody.
give_key ()
{
  chmod 755 "$1"
  for give_file in ca-cert ca-crl server-cert; do
    [ -L "$1/$give_file.pem" ] || [ ! -f "$1/$give_file.pem" ] ||
      chmod 644 "$1/$give_file.pem"
  done
  chmod 600 "$1/server-key.pem"
  getent group "$2" >/dev/null 2>&1 || return 0
  chgrp "$2" "$1/server-key.pem" && chmod 640 "$1/server-key.pem"
}

# key_is_shared: may the processes of this host read the node's key?  They may on a node of
# an earlier version, whose processes used that key, until `weft-renew --separate`.
key_is_shared ()
{
  [ "$(stat -Lc %G "$etc/tls/server-key.pem" 2>/dev/null)" = weft ]
}

# check_revoked FILE CAS: are these the CAs' lists of what is revoked, none older than
# what is here, and nothing else?
check_revoked ()
{
  rm -f "$work"/list.* "$work/lists"
  awk -v to="$work/list." '/^-----BEGIN X509 CRL-----$/ { n++ } n { print > (to n) }' \
    "$1"
  [ -f "$work/list.1" ] || die "$FAILED" "weftd's answer has no list of what is revoked"
  check_number=$(list_number "$etc/tls/ca-crl.pem")
  for check_list in "$work"/list.*; do
    { openssl crl -in "$check_list" -noout -verify -CAfile "$2" 2>"$work/openssl" >&2 &&
      ! grep -q failure "$work/openssl"; } ||
      die "$FAILED" "weftd's list of revoked certificates is not signed by its CA:" \
        "$(tail -n 1 "$work/openssl")"
    [ "$(list_number "$check_list")" -ge "$check_number" ] ||
      die "$FAILED" "weftd's list of what is revoked is older than this node's, which" \
        "stays: weftd's database is an old one, or of another CA; see weftd(8)," \
        "\"Backup and restore\""
    openssl crl -in "$check_list" >>"$work/lists"
  done
  # Other programs may find a list where it is not looked for here.
  cmp -s "$1" "$work/lists" || die "$FAILED" "weftd's answer has more than the lists of" \
    "what is revoked"
}

# list_number FILE: the number of a list of what is revoked; 0 where there is none.
list_number ()
{
  list_number=$(openssl crl -in "$1" -noout -crlnumber 2>/dev/null |
    sed -n 's/^crlNumber=\(0x\)\{0,1\}\([0-9A-Fa-f]\{1,15\}\)$/\2/p')
  echo "$((0x${list_number:-0}))"
}

# show_revoked: shows weftd the list that is here: weftd's database may be an older one.
show_revoked ()
{
  [ -f "$etc/tls/ca-crl.pem" ] || return 0
  status=$(jq -n --rawfile crl "$etc/tls/ca-crl.pem" '{crl: $crl}' |
    call_as_node PUT /api/v1/revocations --data-binary @- \
      -H 'Content-Type: application/json')
  [ "$status" != 409 ] ||
    say "weftd does not take this node's list of what is revoked: $(reason)" >&2
}

# install_revoked FILE: into $etc/tls.
install_revoked ()
{
  cp "$1" "$etc/tls/ca-crl.new"
  chmod 644 "$etc/tls/ca-crl.new"
  sync "$etc/tls/ca-crl.new"
  mv -f "$etc/tls/ca-crl.new" "$etc/tls/ca-crl.pem"
  sync "$etc/tls/"
}

# node_group: the group that may read the node's key.
node_group ()
{
  if key_is_shared; then echo weft; else echo weft-renew; fi
}

# install_tls [PROCESS]: replaces tls by tls.new, by one rename of a link, so each key
# always has its certificate beside it.  GnuTLS, as nbdkit and libnbd use it, requires
# these file names; one certificate serves for both ends.  The new folder's name differs
# from the old one's, whatever the clock says, because the old one is in use until then.
install_tls ()
{
  install_home=$etc
  case ${1:-} in
    disk-*) install_group=weft-disk ;;
    array-*) install_group=weft ;;
    *) install_group=$(node_group) ;;
  esac
  [ -z "${1:-}" ] || install_home=$etc/processes/$1
  rm -rf "$install_home/tls.link" "$install_home/tls.new/csr.pem"
  ln -s server-cert.pem "$install_home/tls.new/client-cert.pem"
  ln -s server-key.pem "$install_home/tls.new/client-key.pem"
  give_key "$install_home/tls.new" "$install_group"
  sync "$install_home/tls.new"/server-*.pem "$install_home/tls.new"
  install_dir=$(mktemp -d "$install_home/tls-$(date +%Y%m%d-%H%M%S)-XXXXXX")
  mv -T "$install_home/tls.new" "$install_dir" # with its owner and mode
  ln -s "${install_dir##*/}" "$install_home/tls.link"
  mv -fT "$install_home/tls.link" "$install_home/tls"
  sync "$install_home"
  for install_old in "$install_home"/tls-*; do
    [ "$install_old" = "$install_dir" ] || rm -rf "$install_old"
  done
}

# --- Process certificates ------------------------------------------------------
#
# A process is named as its folder in $etc/processes: disk-NAME, array-NAME.

# identity_of PROCESS: the identity in its certificate; fails if that is not known.
identity_of ()
{
  case $1 in
    *[!A-Za-z0-9._-]* | array-) return 1 ;;
    array-*) echo "array:${1#array-}" ;;
    disk-*)
      identity_uuid=$(setting "$etc/disks/${1#disk-}.conf" UUID)
      [ -n "$identity_uuid" ] && echo "disk:$identity_uuid"
      ;;
    *) return 1 ;;
  esac
}

# names_identity CERTIFICATE IDENTITY: is it for that process?
names_identity ()
{
  openssl x509 -in "$1" -noout -ext subjectAltName 2>/dev/null | tr -s ', ' '\n' |
    grep -qxF "URI:weft:$2"
}

# is_certified PROCESS: has it a certificate of its own, for what it serves now?
is_certified ()
{
  certified_as=$(identity_of "$1") && [ -f "$etc/processes/$1/conf" ] &&
    names_identity "$etc/processes/$1/tls/server-cert.pem" "$certified_as"
}

# begin_process PROCESS: it has no certificate until install_process.  All may read the
# CA, which only the group weft could on a node of an earlier version.
begin_process ()
{
  give_key "$etc/tls/" "$(node_group)"
  make_directory "$etc/processes/$1"
  rm -rf "$etc/processes/$1/conf" "$etc/processes/$1/tls.new"
}

# install_process PROCESS: key and certificate are in tls.new.  CA and list of what is
# revoked are the node's, by links.  It is renewed when the node has another certificate
# than that in the file node.
install_process ()
{
  process_home=$etc/processes/$1
  for process_file in ca-cert ca-crl; do
    ln -sf "../../../tls/$process_file.pem" "$process_home/tls.new/$process_file.pem"
  done
  fingerprint_of "$etc/tls/server-cert.pem" >"$process_home/tls.new/node"
  chmod 644 "$process_home/tls.new/node"
  install_tls "$1"
  [ -f "$process_home/conf" ] ||
    conf_line WEFT_TLS "$process_home/tls" | write_file "$process_home/conf"
}
