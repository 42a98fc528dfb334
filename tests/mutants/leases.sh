# shellcheck shell=sh
# leases.sh: each rule of docs/PROTOCOL.md "Leases" is removed where
# all engines work together, whether or not unit tests find that, too.  check says how
# mutants are written.  Mutants that only one world of a hundred would find are left to
# unit tests: host.sh and cluster.sh have grant-brings-what-was-given and
# orphan-is-recovered-under-a-writer.

# L1: no two have leases of the same byte.
mutant L1-left-before-images sim-cluster-leases array-lease.c \
  'if (!g->fired || !drained (a, g))' 'if (!g->fired)'
mutant L1-left-while-it-is-written sim-cluster-leases array-lease.c \
  'if (!g->fired && !in_use (a, g))' 'if (!g->fired)'
mutant L1-granted-what-another-has sim-cluster-leases cluster-lease-grant.c \
  'return x->owner < LEASE_ORDERED ? HELD : RECOVERING;' \
  'if (x->owner >= LEASE_ORDERED)
        return RECOVERING;'
# L2: no range of a dead session is granted before it is in sync.
mutant L2-nothing-is-recovered sim-cluster-leases cluster-lease.c \
  'hand_all (&l->spans, s->rec.id, LEASE_ORPHAN);' 'hand_all (&l->spans, s->rec.id, 0);'
mutant L2-order-ends-with-its-session sim-cluster-orders cluster-lease.c \
  'hand_all (&l->spans, LEASE_ORDERED, LEASE_ORPHAN);' 'hand_all (&l->spans, LEASE_ORDERED, 0);'
mutant L2-used-before-it-is-equal sim-cluster-leases array-lease.c \
  'take (a, ranges, count, RECOVERING)' 'take (a, ranges, count, HELD)'
# L3: a read without a lease uses the copy that acknowledgements wait for.
mutant L3-read-as-by-its-writer sim-cluster-leases array-internal.h \
  ' ||
         (a->config.leases && !q->leased && !array_in_part (a, offset, length));' ';'
# L4: a weftd grants nothing before all have declared.
mutant L4-granted-before-all-declare sim-cluster-leases cluster-lease.c \
  '    if (!s->lessee.declared)
      return false;' '    ;'
# L5: no bit of a dead one falls before what it had is equal.
mutant L5-all-bits-fall sim-crashes array-clear.c \
  'a->clear.settle && !a->config.leases ?' 'a->clear.settle ?'
# L6: a FLUSH covers what came with leases.
mutant L6-no-flush-of-what-came sim-cluster-leases array-lease.c \
  'a->member[i].writes.loose = a->former->wrote[i] = ++a->event' ''
# P22: nobody is ended at once for a member that it has lost.
mutant P22-one-loss-ends-it sim-cluster-leases cluster-session-end.c \
  'return apart && s->apart.ms >= APART_MS' 'return apart'
mutant leases-orders-numbered-beyond-json test-cluster-lease cluster-lease.c \
  'LEASE_NUMBERS (c->identity.generation) + ++c->order_count' \
  '(c->identity.generation << 32) + ++c->order_count'
mutant leases-heartbeats-wait-always test-cluster-lease cluster-lease.c \
  'c->hurry |= s->poll == NULL' 'c->hurry |= false'
mutant leases-heartbeats-never-wait test-cluster-lease cluster-lease.c \
  'c->hurry |= s->poll == NULL' 'c->hurry |= true'
mutant leases-hurry-lasts test-cluster-lease cluster.c \
  'c->hurry = false;' ''
mutant leases-declared-before-the-part-is-equal test-cluster-lease cluster-session-end.c \
  's->heard && s->lessee.equal &&' 's->heard &&'
mutant leases-declared-as-soon-as-equal test-cluster-lease cluster-lease.c \
  'if (hb->equal && !s->lessee.equal)' 'if (false)'
