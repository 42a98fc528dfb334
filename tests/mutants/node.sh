# shellcheck shell=sh
# node.sh: mutants of drains, maintenance, removal and preflights.  check says how
# they are written.

# Drains.
mutant drain-of-a-degraded-group test-cluster-drain cluster-drain.c \
  'if (m != member && !cluster_member_well (a, m, why))
      return m;' ''
mutant drain-beside-maintenance test-cluster-drain cluster-drain.c \
  'cluster_copies_without (c, a, which, NULL, &unreachable);' \
  'unreachable = 0;'
mutant drain-of-a-changing-array "test-cluster-drain sim-cluster" cluster-drain.c \
  'if (a->rec.change.epoch && !cluster_copies_stays_out' \
  'if (0 && !cluster_copies_stays_out'
mutant drain-of-what-is-held-out test-cluster-drain cluster-drain.c \
  'if (a->rec.member[member].held || a->rec.member[member].slow) {' 'if (0) {'
mutant drain-without-a-second-copy test-cluster-drain cluster-drain.c \
  'if (a->layout.copies == 1) {' 'if (0) {'
mutant drain-with-a-lost-writer test-cluster-drain cluster-drain.c \
  'if (cluster_rebuild_writers_well (c, a, &writer))' 'if (1)'
mutant drain-without-sessions "test-cluster-drain sim-cluster" cluster-change.c \
  'counts &= change->epoch == 0 || change->sessions;' \
  'counts &= change->sessions;'
mutant drain-to-two-on-a-host test-cluster-drain cluster-drain.c \
  'else if (apart && cluster_place_harm (a, member, d->rec.node) > 0)' 'else if (0)'
mutant drain-to-a-small-disk test-cluster-drain cluster-drain.c \
  'if (d->rec.data_bytes < a->rec.member_bytes)
      small++;' 'if (0)
      small++;'
mutant drain-passes-the-spare-over test-cluster-drain cluster-place.c \
  'return is_spare;' 'return !is_spare;'
mutant drained-before-it-is-in-sync test-cluster-drain cluster-drain.c \
  'return strcmp (a->disk[m]->rec.node, node) == 0 ||
         strcmp (a->rec.member[m].moved_from, node) == 0;' \
  'return strcmp (a->disk[m]->rec.node, node) == 0;'
mutant drain-said-before-durable test-cluster-drain cluster-node.c \
  '  cluster_step_put_node (c, n);
  TAILQ_FOREACH' '  TAILQ_FOREACH'
mutant drained-disk-is-used test-cluster-drain cluster-place.c \
  'else if (cluster_node_is_draining (c, d->rec.node))' 'else if (0)'
mutant drain-stops-with-its-new-disk test-cluster-drain cluster-drain.c \
  'return cluster_disk_failed (a->disk[member]) ||' 'return'
mutant drain-waits-for-a-silent-disk test-cluster-drain cluster-drain.c \
  '(gone_live_ms && c->live_ms >= gone_live_ms);' '0;'
mutant drain-leaves-a-silent-disk-at-once test-cluster-drain cluster-drain.c \
  '(gone_live_ms && c->live_ms >= gone_live_ms);' '!a->disk[member]->alive;'
mutant drain-not-to-the-same-node test-cluster-drain cluster-drain.c \
  'strcmp (d->rec.node, leaves (c, a, member)) == 0' \
  'strcmp (d->rec.node, a->disk[member]->rec.node) == 0'
mutant drain-stuck-in-silence test-cluster-drain cluster-drain.c \
  'if (cluster_disk_failed (d) || !d->alive) {' 'if (0) {'
mutant drained-when-it-was-replaced test-cluster-drain cluster-place.c \
  '  m->confirmed = CONFIRMED_BY_NONE;' "  m->confirmed = CONFIRMED_BY_NONE;
  m->moved_from[0] = '\0';"

# The host is the failure domain.
mutant spare-where-it-fits "test-cluster-place sim-cluster" cluster-rebuild.c \
  'cluster_place_better (a, member, d, best))' \
  '(best == NULL || d->rec.data_bytes < best->rec.data_bytes))'
mutant spare-where-a-group-shares-more "test-cluster-place sim-cluster" cluster-place.c \
  'if (harm != other)
    return harm < other;' 'if (harm != other)
    return harm > other;'
mutant replaced-onto-a-host-that-has-a-copy test-cluster-place cluster-member.c \
  '(!force && refuse_beside (c, op, a, member, d))' '0'
mutant created-on-one-host test-cluster-place cluster-array.c \
  '!create->force && refuse_together (c, a, p)' '0'
mutant trial-on-one-host-is-refused test-cluster-place cluster-array.c \
  'together == 0 || cluster_place_one_host (c, a)' 'together == 0'
mutant same-host-is-refused test-cluster-place cluster-place.c \
  'if (harm <= cluster_place_harm_now (a, member))' 'if (harm == 0)'
mutant one-host-is-green test-cluster-place cluster-verdict-place.c \
  'if (to == NULL && together == 0)' 'if (1)'
mutant hosts-are-not-counted test-cluster-place cluster-copies.c \
  'bool apart = cluster_array_hosts_survived (a, NULL) > 0;' 'bool apart = true;'
mutant unknown-hosts-are-one test-cluster-place cluster-objects.c \
  '!cluster_disk_is_name (d) && strcmp (d->rec.node, node) == 0' \
  'strcmp (d->rec.node, node) == 0'
mutant move-is-ordered-for-ever test-cluster-place cluster-place.c \
  '  memset (m->next_disk, 0, 16);' ''
mutant move-to-what-is-not-free test-cluster-place cluster-drain.c \
  'if (call_off (c, a, m))' 'if (0)'
mutant hosts-of-stripes-that-are-not-there test-layout layout.c \
  'if (times > 0 && hosts < fewest)' 'if (hosts < fewest)'

# Maintenance.
mutant maintenance-where-data-is-lost "test-cluster-node test-cluster-preflight" \
  cluster-node.c 'if (unreachable == 0)
      continue;' 'if (1)
      continue;'
mutant spare-in-maintenance test-cluster-node cluster-rebuild.c \
  'if (n && n->rec.maintenance)
    return 0;' ''
mutant spare-at-once-after-maintenance test-cluster-node cluster-rebuild.c \
  'since = n->maintenance_live_ms;' ';'
mutant spare-on-a-node-in-maintenance test-cluster-node cluster-place.c \
  'else if (cluster_node_in_maintenance (c, d->rec.node))' 'else if (0)'
mutant maintenance-hides-another-loss test-cluster-node cluster-verdict-array.c \
  'else if (unreachable > 0)
    verdict_text_say (
      v, CLUSTER_ERROR,' 'else if (unreachable > 0)
    verdict_text_say (
      v, CLUSTER_INFO,'

# Removal and eviction.
mutant node-with-members-goes test-cluster-node cluster-node.c \
  'if (name_places (c, name, places, sizeof places)) {' 'if (0) {'
mutant node-with-a-session-goes test-cluster-node cluster-node.c \
  'if (!s->rec.ended && strcmp (s->rec.node, name) == 0) {' 'if (0) {'
mutant removed-node-is-back test-cluster-node cluster-step.c \
  'put (c, CLUSTER_RECORD_NODE, true,' 'put (c, CLUSTER_RECORD_NODE, false,'

# Preflights.
mutant preflight-leaves-its-step test-cluster-preflight cluster-preflight.c \
  '  c->step = NULL;
  cluster_step_free (s);' '  cluster_pump_end (c);
  (void) s;'
mutant preflight-allows-all test-cluster-preflight cluster-preflight.c \
  '      f->allowed = false;' ''
mutant preflight-promises-twice test-cluster-preflight cluster-preflight.c \
  'promised[count++] = to;' ''
mutant preflight-of-too-many test-cluster-preflight cluster-node.c \
  'return refuse_node (c, op, name) || refuse_record (c, op, name);' \
  'return refuse_node (c, op, name);'

# Shut-out nodes, disks that are carried elsewhere, and jobs that have ended.
mutant disk-is-taken-by-its-uuid test-cluster-node cluster-admit.c \
  '(!d->alive && (!placed ||' '(!d->alive && (1 ||'
mutant disk-is-taken-while-it-lives test-cluster-node cluster-disk-orders.c \
  'else if (d->alive && !here)' 'else if (0)'
mutant word-of-a-move-stays test-cluster-node cluster-disk.c \
  "r->moves_to[0] = '\\0';" ''
mutant shut-out-writer-goes-on test-cluster-node cluster-node.c \
  'cluster_session_end_cut (c, s, by);' ';'
mutant shut-out-member-stays test-cluster-node cluster-rebuild.c \
  ': a->disk[m]->rec.shut_out         ? "its node was shut out"' ''
mutant ended-job-is-not-stored test-cluster-node cluster-jobs.c \
  'cluster_step_put_job (c, new);' ''
mutant ended-jobs-stay-for-ever test-cluster-node cluster-jobs.c \
  'return c->wall_ms >= job->ended_wall_ms + KEPT_MS;' 'return false;'
mutant drained-though-its-target-is-drained test-cluster-drain cluster-drain.c \
  'if (!cluster_node_is_draining (c, r->moved_from))' 'if (1)'

# Messages to people.
mutant pause-of-nothing test-cluster-words cluster-member.c \
  'tune->has_paused && tune->paused && m->state == MEMBER_IN_SYNC' '0'
mutant pause-outlives-its-rebuild test-cluster-words cluster-commit.c \
  'member->paused = false;' ';'
mutant pause-is-not-said test-cluster-words cluster-verdict-array.c \
  'if (a->rec.member[m].paused)' 'if (0)'
mutant back-by-itself-before-it-is-heard test-cluster-words cluster-verdict-array.c \
  'if (!cluster_disk_heard (d) || !d->spoke)' 'if (0)'
mutant stuck-drain-is-green test-cluster-words cluster-verdict.c \
  'else if (passes)' 'else if (1)'
mutant maintenance-is-green test-cluster-verdict cluster-verdict-array.c \
  'v, CLUSTER_WARNING,
      "Array %s is degraded' 'v, CLUSTER_INFO,
      "Array %s is degraded'
mutant unheard-is-well test-cluster-verdict cluster-verdict-array.c \
  'count += !trouble (a, m) && !cluster_disk_heard (a->disk[m]);' ';'
mutant placeless-is-well test-cluster-verdict cluster-verdict-array.c \
  ': cluster_disk_heard (d) && !d->took_place ?' ': 0 ?'
mutant waiting-for-import-is-well test-cluster-verdict cluster-verdict.c \
  'say_foreigns (v, c);' ''
mutant reader-loses-writes test-cluster-verdict cluster-verdict.c \
  'if (s->rec.writable)
    return s->rec.service' 'if (1)
    return s->rec.service'
mutant drain-in-turn-is-stuck test-cluster-words cluster-drain.c \
  'return soon_well (a, m) ? HOLD_PASSES : HOLD_STAYS;' 'return HOLD_STAYS;'
mutant drain-promises-a-disk-twice test-cluster-words cluster-drain.c \
  'promised[0] = to;' ''
mutant nobody-is-needed test-cluster-words cluster-copies.c \
  'if (layout_loss (&a->layout, gone, NULL) == now)' 'if (1)'
mutant copied-stays-exposed test-cluster-words cluster-copies.c \
  '*exposed = rest + todo < e ? rest + todo : e;' '*exposed = e;'
mutant copied-before-counts-again test-cluster-words cluster-copies.c \
  'join->epoch != a->rec.member[m].fence)
      continue;
    gone' '0)
      continue;
    gone'
mutant eta-before-it-is-known test-cluster-words cluster-eta.c \
  'e->known = e->known ||' 'e->known = true ||'
mutant eta-counts-the-pause test-cluster-words cluster-member.c \
  'memset (&a->disk[member]->eta, 0, sizeof a->disk[member]->eta);' ''
mutant planned-is-an-error test-cluster-words cluster-place.c \
  'm->planned = true;' ''
mutant loss-is-planned test-cluster-words cluster-change.c \
  'a->rec.member[m].planned = false;' ';'

# Sessions that are over.
mutant ended-session-is-not-told test-cluster-node cluster-session-end.c \
  'cluster_shut_add (c, a, s->rec.id, s->rec.node, false);' ''
mutant order-is-not-stored test-cluster-node cluster-shut.c \
  'a->rec.over[i].ordered = true;
        cluster_step_put_array (c, a);' 'a->rec.over[i].ordered = true;'
mutant former-confirmation-counts test-cluster-node cluster-shut.c \
  'return said >> 32 == number >> 32 && said >= number;' 'return said != 0;'
mutant tokens-are-not-renewed test-cluster-node cluster-shut.c \
  'if (!ended_many (a, a->rec.epoch))' 'if (1)'
mutant node-fills-the-list-of-ended test-cluster-node cluster-shut.c \
  'return places (c, a, node) < OVER_NODE_MAX;' 'return true;'
mutant ended-session-is-nobody-s test-cluster-node cluster-shut.c \
  'snprintf (o->node, sizeof o->node, "%s", node);' ';'
mutant readers-take-the-places-of-writers test-cluster-node cluster-shut.c \
  '(writable ? 0 : OVER_WRITERS) <' '0 <'
mutant writers-leave-places-as-readers test-cluster-node cluster-shut.c \
  '(writable ? 0 : OVER_WRITERS) <' 'OVER_WRITERS <'
mutant list-of-ended-overflows test-cluster-node cluster-attach-check.c \
  'if (cluster_shut_room (c, a, attach->writable))' 'if (1)'
mutant node-that-comes-and-goes-is-kept-out test-cluster-node cluster-shut.c \
  'if (of_node >= OVER_NODE_RENEW)' 'if (0)'
mutant doors-stay-open-for-old-tokens test-cluster-node cluster-shut.c \
  'if (older > 0 && below < oldest) {' 'if (0) {'
mutant source-stays-open test-cluster-node cluster-commit.c \
  'cluster_shut_add (c, a, cluster_shut_source (a, m), a->disk[m]->rec.node,
                      false);' ';'
mutant shut-out-source-stays-open test-cluster-node cluster-node.c \
  'if (d->array && d->array->rec.member[d->position].state == MEMBER_JOINING)' 'if (0)'
mutant read-only-changes-the-epoch test-cluster-node cluster-node.c \
  'if (c->read_only[0])
      cluster_shut_add (c, s->array, s->rec.id, name, true);' 'if (0)
      ;'
mutant old-database-guesses-the-epoch test-cluster-node cluster-shut.c \
  'c->read_only[0] ? EPOCH_MAX - 1 : a->rec.epoch' 'a->rec.epoch'
mutant shut-out-is-forgotten test-cluster-node cluster-node.c \
  'cluster_session_end_cut (c, s,
                                 "an administrator, who shut the node out");' ';'
mutant disks-of-a-node-without-bound test-cluster-node cluster-disk.c \
  'if (of_node >= NODE_DISKS_MAX) {' 'if (0) {'
