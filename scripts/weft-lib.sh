# shellcheck shell=sh
# weft-lib.sh: what the scripts of a node share.  Read by them, never run.
#
# The configuration of a node, all below $root (which is / but for tests and
# images):
#   etc/weft/weft.conf       WEFT_ADMIN, WEFT_TLS, WEFT_NODE
#   etc/weft/tls/            the CA, this node's certificate and key
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
# it: names and labels may be anybody's.
plain ()
{
  sed 's/\xc2[\x80-\x9f]/??/g; s/[\x01-\x1f\x7f]/?/g'
}

say ()
{
  printf '%s\n' "$me: $*" | plain
}

# die STATUS WORDS
die ()
{
  die_status=$1
  shift
  say "$*" >&2
  exit "$die_status"
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

use_root ()
{
  root=$1
  [ "$root" != / ] || root=''
  [ -z "$root" ] || root=$(realpath -m -- "$root")
  etc=$root/etc/weft
}

# One script at a time changes a node's configuration.  The timer's weft-renew may be at
# work whenever an administrator runs one, so who is second waits.
lock ()
{
  mkdir -p "$root/etc"
  exec 9<"$root/etc"
  flock -n 9 && return
  say "another Weft script is at work on this host; waiting until it has ended"
  flock -w 120 9 || die "$FAILED" "another Weft script has been at work on this host" \
    "for two minutes; try again when it has ended"
}

unlock ()
{
  exec 9<&-
}

# For all to read, as the two of them are: what is secret is in tls/.
make_directory ()
{
  (umask 022; mkdir -p "$1")
}

# write_file PATH: what comes on stdin becomes this file, durable and at once.
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

# unit_of CONF: what serves the disk.
unit_of ()
{
  echo "weft-disk@$(basename "$1" .conf).service"
}

# What this host is called where nobody says otherwise.
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

# What weftd said of why.
reason ()
{
  jq -r '.detail? // .title? // empty' <"$work/reply" 2>/dev/null | head -n 1 |
    grep . || { [ -s "$work/curl" ] && head -n 1 "$work/curl"; } ||
    echo "no reason was given"
}

# Does what answers there have other CAs than the one that signed this node's
# certificate?  Said by whoever answers, so nothing but words may follow from it.
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
      # What curl says of a certificate that is of another time.
      ! grep -q 'not yet valid\|has expired' "$work/curl" ||
        die "$FAILED" "$2: $(reason); see that the clock of this host is right" \
          "($(date)), and weftd's"
      failed_reason=$(reason)
      if [ -f "$etc/tls/client-cert.pem" ] && other_ca; then
        die "$UNTRUSTED" "$2: the CA of the cluster at $admin is not the one of" \
          "this node's certificate: it was changed (weftctl ca rotate) while this node" \
          "was away, or weftd was set up anew. Enroll this node again:" \
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

# make_request DIR ADDRESS: a new key, and a request for a certificate of it.
make_request ()
{
  openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 \
    -out "$1/server-key.pem" 2>"$work/openssl" &&
    openssl req -new -key "$1/server-key.pem" -subj "/CN=$node" \
      -addext "subjectAltName=DNS:$node,IP:$2" -out "$1/csr.pem" \
      2>>"$work/openssl" && return
  die "$FAILED" "openssl: $(tail -n 1 "$work/openssl")"
}

# take_certificate DIR: from weftd's reply; it must be of the CA and for the key
# that are there.
take_certificate ()
{
  jq -er .certificate "$work/reply" >"$1/server-cert.pem" 2>/dev/null ||
    die "$FAILED" "weftd's answer has no certificate"
  openssl verify -CAfile "$1/ca-cert.pem" "$1/server-cert.pem" \
    >/dev/null 2>"$work/openssl" ||
    die "$FAILED" "the certificate from weftd is not of its CA:" \
      "$(tail -n 1 "$work/openssl")"
  [ "$(openssl x509 -in "$1/server-cert.pem" -noout -pubkey)" = \
    "$(openssl pkey -in "$1/server-key.pem" -pubout)" ] ||
    die "$FAILED" "the certificate from weftd is for another key"
}

# The processes run as user weft, where there is one.
readable_by_weft ()
{
  getent group weft >/dev/null 2>&1 || return 0
  chgrp -R weft "$1" && chmod -R g+rX "$1"
}

# check_revoked FILE CAS: are these the CAs' lists of what is revoked?
check_revoked ()
{
  rm -f "$work"/crl.?
  awk -v to="$work/crl." '/^-----BEGIN X509 CRL-----$/ { n++ } n { print > (to n) }' \
    "$1"
  [ -f "$work/crl.1" ] || die "$FAILED" "weftd's answer has no list of what is revoked"
  for check_list in "$work"/crl.?; do
    openssl crl -in "$check_list" -noout -verify -CAfile "$2" 2>"$work/openssl" >&2 &&
      ! grep -q failure "$work/openssl" && continue
    die "$FAILED" "what weftd says is revoked is not signed by its CA:" \
      "$(tail -n 1 "$work/openssl")"
  done
}

# install_revoked FILE: into $etc/tls.
install_revoked ()
{
  cp "$1" "$etc/tls/ca-crl.new"
  readable_by_weft "$etc/tls/ca-crl.new"
  sync "$etc/tls/ca-crl.new"
  mv -f "$etc/tls/ca-crl.new" "$etc/tls/ca-crl.pem"
}

# install_tls: what was made in $etc/tls.new becomes $etc/tls, by one rename of a
# link: at no time is there a key without its certificate.  GnuTLS, as nbdkit
# and libnbd use it, wants these names; one certificate does for both ends.  The name of
# the folder is new, whatever the clock says: the one before is in use until then.
install_tls ()
{
  rm -rf "$etc/tls.link" "$etc/tls.new/csr.pem"
  ln -s server-cert.pem "$etc/tls.new/client-cert.pem"
  ln -s server-key.pem "$etc/tls.new/client-key.pem"
  readable_by_weft "$etc/tls.new"
  sync "$etc/tls.new"/*.pem "$etc/tls.new"
  install_dir=$(mktemp -d "$etc/tls-$(date +%Y%m%d-%H%M%S)-XXXXXX")
  mv -T "$etc/tls.new" "$install_dir" # with its owner and mode
  ln -s "${install_dir##*/}" "$etc/tls.link"
  mv -fT "$etc/tls.link" "$etc/tls"
  sync "$etc"
  for install_old in "$etc"/tls-*; do
    [ "$install_old" = "$install_dir" ] || rm -rf "$install_old"
  done
}
