# shellcheck shell=sh
# networks.sh: mutants of server/pki/ca-networks.c: which addresses a CA signs that nobody has
# said anything about.  check says how they are written.

mutant network-is-not-cut-to-its-bits test-networks ca-networks.c \
  'to->address[i] = address[i] & to->mask[i];' 'to->address[i] = address[i];'
mutant mask-ends-at-a-byte test-networks ca-networks.c \
  '(uint8_t) (0xff00 >> left)' '0'
mutant network-longer-than-an-address test-networks ca-networks.c \
  'bits <= 8 * size &&' ''
mutant more-networks-than-there-is-room-for test-networks ca-networks.c \
  'if (n->count == CA_NETWORKS_MAX)' 'if (n->count == 2 * CA_NETWORKS_MAX)'
mutant private-network-is-too-large test-networks ca-networks.c \
  '"172.16.0.0/12"' '"172.16.0.0/11"'
mutant interface-without-a-network-permits-all test-networks ca-networks.c \
  'bits ? bits : 8 * size' 'bits'
mutant interface-s-network-is-its-address test-networks ca-networks.c \
  'bits ? bits : 8 * size' '8 * size'
mutant networks-of-loopback-interfaces test-networks ca-networks.c \
  'i->ifa_flags & IFF_LOOPBACK' '0'
mutant network-is-there-twice test-networks ca-networks.c \
  'if (!ca_networks_have (n, text))' ''
