#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Creates what two machines need to trust each other: a CA, a certificate for workers, one for operators, a token. For
# trials and tests; a site with its own CA uses that (README.md beside this file lists what certificates must contain).
#
#   deploy/certs/make_certs.sh DIRECTORY [--host=NAME_OR_IP]... [--operator=NAME] [--days=N] [--broken]
#
# Without --host: localhost, 127.0.0.1, ::1 and this host's name. Called again in DIRECTORY, makes only what is not there, and what
# a flag asks for: --host replaces the workers' certificate, --operator the operator's. --broken adds certificates for tests: expired,
# not yet valid, for another host, of another CA.
set -euo pipefail
umask 077 # only their owner may read keys and the token

usage() {
  echo "make_certs: $1" >&2
  echo "usage: make_certs.sh DIRECTORY [--host=NAME_OR_IP]... [--operator=NAME] [--days=N] [--broken]" >&2
  exit 2
}

directory="" hosts=() operator="" days=365 broken=0
for argument in "$@"; do
  case "$argument" in
    --host=*) hosts+=("${argument#*=}") ;;
    --operator=*) operator=${argument#*=} ;;
    --days=*) days=${argument#*=} ;;
    --broken) broken=1 ;;
    -*) usage "unknown flag $argument" ;;
    *) directory=$argument ;;
  esac
done
[[ -n $directory ]] || usage "no directory"
for host in ${hosts[@]+"${hosts[@]}"}; do [[ -n $host ]] || usage "--host= has no value"; done
[[ $days =~ ^[1-9][0-9]{0,4}$ ]] || usage "--days=$days is not a number of days"
command -v openssl >/dev/null || {
  echo "make_certs: there is no openssl: apt-get install openssl" >&2
  exit 1
}

mkdir -p "$directory"
cd "$directory"
if [[ -e ca.crt && ! -e ca.key ]]; then
  echo "make_certs: $directory has ca.crt, which workers and operators may use, but not its key: bring ca.key back, or name another directory" >&2
  exit 1
fi
make_server=1 make_client=1
if [[ ${#hosts[@]} -eq 0 ]]; then
  hosts=(localhost 127.0.0.1 ::1 "$(hostname)")
  [[ ! -e server.crt ]] || make_server=0
fi
if [[ -z $operator ]]; then
  operator=operator
  [[ ! -e client.crt ]] || make_client=0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
touch "$scratch/index.txt"
# Several runs may create the same certificate, so subjects repeat.
cat >"$scratch/ca.cnf" <<CNF
[ca]
default_ca = jobscope
[jobscope]
database = $scratch/index.txt
new_certs_dir = $scratch
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
[any]
commonName = supplied
[req]
distinguished_name = name
[name]
CNF

# alternative_names: converts names to openssl's format, "DNS:localhost,IP:127.0.0.1".
alternative_names() {
  local list="" host
  for host in "$@"; do
    if [[ $host =~ ^[0-9.]+$ || $host == *:* ]]; then list+=",IP:$host"; else list+=",DNS:$host"; fi
  done
  echo "${list:1}"
}

new_key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key" 2>/dev/null; }

# make_ca NAME SUBJECT
make_ca() {
  new_key "$1"
  openssl req -x509 -new -key "$1.key" -subj "/CN=$2" -days 3650 -config "$scratch/ca.cnf" -out "$1.crt" \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign"
}

# make_leaf CA NAME SUBJECT USAGE ALTERNATIVE_NAMES FROM UNTIL: times as YYYYMMDDHHMMSSZ.
make_leaf() {
  new_key "$2"
  openssl req -new -key "$2.key" -subj "/CN=$3" -config "$scratch/ca.cnf" -out "$scratch/$2.csr"
  {
    echo "basicConstraints=critical,CA:FALSE"
    echo "keyUsage=critical,digitalSignature"
    echo "extendedKeyUsage=$4"
    if [[ -n $5 ]]; then echo "subjectAltName=$5"; fi
  } >"$scratch/$2.ext"
  openssl ca -batch -notext -config "$scratch/ca.cnf" -cert "$1.crt" -keyfile "$1.key" -in "$scratch/$2.csr" \
    -extfile "$scratch/$2.ext" -startdate "$6" -enddate "$7" -out "$2.crt" 2>"$scratch/log" || {
    cat "$scratch/log" >&2
    exit 1
  }
}

# A clock that is slightly behind must not see a new certificate as not yet valid.
from=$(date -u -d "-1 hour" +%Y%m%d%H%M%SZ)
until=$(date -u -d "+$days days" +%Y%m%d%H%M%SZ)
names=$(alternative_names "${hosts[@]}")

if [[ ! -e ca.crt ]]; then make_ca ca "jobscope trial CA"; fi
if ((make_server)); then make_leaf ca server "${hosts[0]}" serverAuth "$names" "$from" "$until"; fi
if ((make_client)); then make_leaf ca client "$operator" clientAuth "" "$from" "$until"; fi
if [[ ! -e token ]]; then openssl rand -hex 32 >token; fi

if [[ $broken -eq 1 ]]; then
  past=$(date -u -d "-2 days" +%Y%m%d%H%M%SZ)
  yesterday=$(date -u -d "-1 day" +%Y%m%d%H%M%SZ)
  tomorrow=$(date -u -d "+1 day" +%Y%m%d%H%M%SZ)
  make_leaf ca expired "${hosts[0]}" serverAuth,clientAuth "$names" "$past" "$yesterday"
  make_leaf ca not_yet_valid "${hosts[0]}" serverAuth,clientAuth "$names" "$tomorrow" "$until"
  make_leaf ca wrong_host elsewhere.example serverAuth "$(alternative_names elsewhere.example 192.0.2.7)" "$from" "$until"
  make_ca other_ca "another CA"
  make_leaf other_ca other_server "${hosts[0]}" serverAuth "$names" "$from" "$until"
  make_leaf other_ca other_client "$operator" clientAuth "" "$from" "$until"
  openssl rand -hex 32 >other_token
fi

# Public files may be read by all.
chmod 644 ./*.crt
