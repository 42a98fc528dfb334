# shellcheck shell=sh
# leases.sh: each rule of docs/PROTOCOL.md "Leases" taken away where all engines work
# together, whatever the unit tests say of it.  check says how mutants are written.
# What only one world of a hundred sees is left to unit tests: host.sh and cluster.sh have
# grant-brings-what-was-given and orphan-is-recovered-under-a-writer.

# L1: no two have leases of the same byte.
mutant L1-left-before-images sim-cluster-leases array-lease.c \
  'if (!g->fired || !drained (a, g))' 'if (!g->fired)'
mutant L1-left-while-it-is-written sim-cluster-leases array-lease.c \
  'if (!g->fired && !in_use (a, g))' 'if (!g->fired)'
mutant L1-granted-what-another-has sim-cluster-leases cluster-lease-grant.c \
  'return x->owner < LEASE_ORDERED ? HELD : RECOVERING;' \
  'if (x->owner >= LEASE_ORDERED)
        return RECOVERING;'
# L2: nor before what one had that has died is equal.
mutant L2-nothing-is-recovered sim-cluster-leases cluster-lease.c \
  'hand_all (&l->spans, s->rec.id, LEASE_ORPHAN);' 'hand_all (&l->spans, s->rec.id, 0);'
mutant L2-used-before-it-is-equal sim-cluster-leases array-lease.c \
  'take (a, ranges, count, RECOVERING)' 'take (a, ranges, count, HELD)'
# L3: what is read without a lease is the copy that acknowledgements wait for.
mutant L3-read-as-by-its-writer sim-cluster-leases array-internal.h \
  '(a->config.leases && !q->leased) ||' ''
# L4: a weftd grants nothing before all have declared.
mutant L4-granted-before-all-declare sim-cluster-leases cluster-lease.c \
  '    if (!s->lessee.declared)
      return false;' '    ;'
# L5: no bit of a dead one falls before what it had is equal.
mutant L5-all-bits-fall sim-crashes array-clear.c \
  'a->clear.settle && !c->leases &&' 'a->clear.settle &&'
# L6: a FLUSH covers what came with leases.
mutant L6-no-flush-of-what-came sim-cluster-leases array-lease.c \
  'a->member[i].loose = a->former->wrote[i] = ++a->event' ''
# P22: nobody is ended at once for a member that it has lost.
mutant P22-one-loss-ends-it sim-cluster-leases cluster-end.c \
  'return apart && s->apart_ms >= APART_MS' 'return apart'
mutant leases-heartbeats-wait-always test-cluster-lease cluster-lease.c \
  'c->hurry |= s->poll == NULL' 'c->hurry |= false'
mutant leases-heartbeats-never-wait test-cluster-lease cluster-lease.c \
  'c->hurry |= s->poll == NULL' 'c->hurry |= true'
mutant leases-hurry-lasts test-cluster-lease cluster.c \
  'c->hurry = false;' ''
