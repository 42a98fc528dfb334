# shellcheck shell=sh
# volume.sh: mutants of the volume engine and of a pool's format.  check says how they
# are written.

# V1: a segment is in the map of one volume, to which it is granted.
mutant volume-uses-what-it-gave-back test-volume volume-space.c \
  '    place_set (v, i, PLACE_EMPTY);
' ''
mutant volume-what-is-gone-counts-as-named sim-volume volume-open.c \
  'e->kind != POOL_GONE);' 'true);'

# V2: the log names only stable blocks, and has all before a FLUSH is answered.
mutant volume-log-before-flush sim-volume volume-flush.c \
  '    flush_array (v, r, r->client->array);
    if (v->group_count == 0) {
      v->flush.passing++;
      r->left = 0;
    }
    else {
      v->flush.flying++;' '    if (v->group_count == 0) {
      flush_array (v, r, r->client->array);
      v->flush.passing++;
      r->left = 0;
    }
    else {
      v->look = true;'
mutant volume-bits-taken-at-the-end sim-volume volume-flush.c \
  '  v->flush.stage = FLUSH_LOGGED;
' '  for (uint32_t i = 0; i < v->group_count; i++)
    v->places[v->group[i]].taken = v->places[v->group[i]].blocks;
  v->flush.stage = FLUSH_LOGGED;
'
mutant volume-flush-without-the-log sim-volume-crashes volume-flush.c \
  'if (v->log.stage != LOG_IDLE)
      break;' ''
mutant volume-flush-passes-a-change sim-volume-crashes volume-flush.c \
  'if (p->blocks == 0 ? !p->named : p->blocks == p->logged && p->named)' 'if (1)'
mutant volume-fua-without-the-log sim-volume-crashes volume-part.c \
  'if (r->flags & ARRAY_FUA)
    volume_flush_add (v, r);' 'if (0)
    volume_flush_add (v, r);'
mutant volume-fua-of-an-unlogged-block sim-volume volume-part.c \
  '(blocks & ~place->logged) == 0 &&' ''
mutant volume-fua-of-a-block-that-the-group-drops test-volume volume-part.c \
  '(!place->in_group || (blocks & ~place->taken) == 0)' 'true'
mutant volume-no-flush-when-it-is-opened sim-volume volume-open.c \
  '    flush_send (v);
}' '    if (v->config.scan)
      v->state = VOLUME_SCANNED;
    else
      life_begin (v);
}'
mutant volume-no-life sim-volume volume-open.c \
  'b->life >= v->open.life && b->life <= v->root->life' 'true'
mutant volume-same-life-again sim-volume volume-open.c \
  'v->root->life++;' 'v->root->life += v->root->life == 0;'
mutant volume-sequence-may-jump sim-volume volume-open.c \
  'b->sequence == v->root->log_sequence + v->open.block &&' ''
mutant volume-named-before-it-is-written sim-volume volume-log.c \
  '  v->log.stage = LOG_WRITING;
  write_next (v);' '  v->log.stage = LOG_WRITING;
  if (v->log.fresh_count > 0 && !v->log.anew) {
    memcpy (v->root->log + v->root->log_count, v->log.fresh,
            v->log.fresh_count * sizeof v->root->log[0]);
    v->root->log_count += v->log.fresh_count;
    v->log.fresh_count = 0;
    volume_root_put (v);
  }
  write_next (v);'
mutant volume-log-block-without-salt test-pool pool.c \
  '    put_le32 (bytes + at, b->life);
' ''
mutant volume-torn-root-stays test-volume volume-root.c \
  'if (v->rootio.scrub) {' 'if (0) {'
mutant volume-newest-slot-is-overwritten sim-volume-crashes volume-root.c \
  'sequence % 2 * POOL_ROOT_BYTES' '(sequence + 1) % 2 * POOL_ROOT_BYTES'
mutant volume-answered-before-the-root sim-volume volume-log.c \
  'else if (v->rootio.stable >= v->log.wants) {' 'else {'
mutant volume-group-forgets-what-is-gone sim-volume volume-log.c \
  'return p->named && p->taken == 0;' 'return false;'
mutant volume-data-before-what-is-gone sim-volume volume-log.c \
  'if (v->log.cursor.pass == 0 ? !gone (p) : p->taken == 0)' \
  'if (v->log.cursor.pass == 1 ? !gone (p) : p->taken == 0)'
mutant volume-anew-without-the-group sim-volume volume-log.c \
  'return p->in_group ? p->taken : p->logged;' \
  'return p->in_group && !p->logged ? p->taken : p->logged;'
mutant volume-empty-log-has-no-block test-volume volume-log.c \
  'if (v->log.sequence > v->log.first || v->log.cursor.pass > 0)' 'if (1)'

# V3: a volume reads what was written to it, else zeroes.
mutant volume-partial-block-keeps-the-rest sim-volume volume-part.c \
  'memset (bounce, 0, v->block_bytes);' ''
mutant volume-bits-before-the-data sim-volume volume-part.c \
  '  p->losses = v->losses;
' '  p->losses = v->losses;
  v->places[p->place].blocks |= turn_blocks (v, p);
'
mutant volume-bits-kept-by-a-failed-flush sim-volume volume-flush.c \
  'p->blocks &= p->logged |' 'p->blocks &= UINT64_MAX |'
mutant volume-lost-half-of-a-write sim-volume volume-part.c \
  'p->turn == TURN_ALONE && p->losses != v->losses' 'false'
mutant volume-read-of-what-is-lost sim-volume volume-part.c \
  '      read_again (v, p);' '      (void) read_again;'
mutant volume-others-are-not-told sim-volume volume-flush.c \
  'if (c->wrote > v->stable)' 'if (0)'
mutant volume-writer-is-not-told sim-volume volume-part.c \
  'if (r->losses != v->losses)' 'if (0)'
mutant volume-told-too-early test-volume volume-flush.c \
  'if (r->begun >= c->gone)' 'if (1)'
mutant volume-two-change-a-segment sim-volume volume-turn.c \
  'while (!t->alone && (p = TAILQ_FIRST (&t->waiting))) {' \
  'while ((p = TAILQ_FIRST (&t->waiting))) {'
mutant volume-write-overtakes-a-change sim-volume volume-turn.c \
  'if (!t && shares (v, p)) {' 'if (shares (v, p)) {'
mutant volume-trim-of-half-a-block sim-volume volume-part.c \
  'start = (p->from + b - 1) / b * b' 'start = p->from / b * b'

# A request is carried out in a few segments at a time, in the order of submission.
mutant volume-all-parts-at-once test-volume volume-part.c \
  'r->left < v->config.parts &&' ''
mutant volume-overtakes-parts-that-are-not-made sim-volume volume-part.c \
  '      least = first;' '      ;'
mutant volume-waits-for-what-does-not-overlap test-volume volume-part.c \
  '(q->offset + q->length - 1) / bytes >= next)' 'true)'
mutant volume-makes-no-further-parts test-volume volume-part.c \
  'v->room = v->look = true;' ';'
mutant volume-goes-on-after-an-error test-volume volume-part.c \
  '    if (r->error)
      made_to (v, r, r->offset + r->length);
' ''
mutant volume-fua-of-a-hole-without-the-log test-volume volume-part.c \
  'r->loose = true; /* the log may still have what was there */' ''
mutant volume-end-is-where-it-is-now test-volume volume-part.c \
  'p->last = r->to_end && to == r->offset + r->length;' \
  'p->last = to == v->root->size;'

# V5: a segment is used again when the log is rid of it and nothing asked of it runs.
mutant volume-reuse-before-the-log sim-volume volume-space.c \
  'p->state != PLACE_FREED || p->named || p->in_group' \
  'p->state != PLACE_FREED || p->in_group'
mutant volume-reuse-while-the-group-has-it sim-volume volume-space.c \
  'p->state != PLACE_FREED || p->named || p->in_group' \
  'p->state != PLACE_FREED || p->named'
mutant volume-reuse-while-it-is-read sim-volume volume-space.c \
  'if (p->reading > 0 || p->writing > 0)' 'if (p->writing > 0)'
mutant volume-old-log-is-free-too-early sim-volume volume-log.c \
  'v->log.wants = volume_root_put (v);
  v->log.stage = LOG_NAMING;' 'v->log.wants = volume_root_put (v);
  v->log.stage = LOG_NAMING;
  if (v->log.anew)
    for (uint32_t i = 0; i < v->places_count; i++)
      if (v->places[i].state == PLACE_LOG &&
          v->places[i].segment != v->log.fresh[0])
        space_spare (v, i);'
mutant volume-failed-append-is-forgotten sim-volume volume-log.c \
  '      p->named = true;
' ''

# V8: after a scan nothing that is used is granted.
mutant volume-scan-forgets-the-log sim-volume volume.c \
  'if (p->state != PLACE_DATA && p->state != PLACE_LOG)' 'if (p->state != PLACE_DATA)'
mutant volume-scan-believes-a-cache test-volume volume-open.c \
  '  if (why)
    open_fail (v, why);
  else
    v->open.step = OPEN_FLUSH;' '  if (why)
    open_fail (v, why);
  else if (v->config.scan)
    v->state = VOLUME_SCANNED;
  else
    v->open.step = OPEN_FLUSH;'
mutant volume-spare-before-its-log-is-read sim-volume volume-open.c \
  'space_take_this (v, e->segment, PLACE_DATA);' '(void) 0;'

# V9: a full pool fails what needs space, and nothing else.
mutant volume-data-takes-the-space-of-the-log sim-volume volume-space.c \
  '  if (spare_for_data (v) == 0)' '  if (v->count[PLACE_SPARE] == 0)'
mutant volume-full-at-once sim-volume volume.c \
  'return v->now >= p->hungry_ns + v->config.full_wait_ms * NS_PER_MS;' 'return true;'
mutant volume-waits-for-space-for-ever sim-volume volume.c \
  'return v->now >= p->hungry_ns + v->config.full_wait_ms * NS_PER_MS;' 'return false;'
mutant volume-freed-space-is-not-seen sim-volume volume-flush.c \
  'else if (wants_space (v) && space_lingers (v)) {' 'else if (0) {'

# The format.
mutant pool-unknown-fields-are-dropped test-pool pool.c \
  'if (e->kind == POOL_HOLE
        ? e->segment != POOL_NO_SEGMENT' 'if (e->kind == POOL_HOLE
        ? false'
mutant pool-slot-in-the-wrong-place test-pool pool.c \
  'both[i].sequence % 2 != i' 'false'
mutant volume-log-that-is-lost-is-believed test-volume volume-open.c \
  'if (error || v->open.lost)' 'if (error)'
mutant volume-new-twice test-volume volume-open.c \
  '!there && v->config.name' 'v->config.name'
mutant volume-deletes-the-root-of-another test-volume volume-open.c \
  'if (root_is_anothers (v))' 'if (root_is_anothers (v) && !v->deleting)'
mutant volume-deleted-needs-its-log test-volume volume-open.c \
  'else if (v->deleting) {' 'else if (v->deleting && !there) {'
mutant volume-new-root-over-a-torn-one test-volume volume-open.c \
  'v->rootio.scrub = !all_zero (v->open.buf + POOL_ROOT_BYTES, POOL_ROOT_BYTES);' ''
mutant root-of-another-array test-pool pool.c \
  'if (memcmp (r->array, h->array, 16) != 0)' 'if (0)'

mutant torn-root-is-none test-pool pool.c \
  'memcmp (slots, root_magic, 8) == 0 &&
        memcmp (slots + ROOT_AT_ARRAY, array, 16) == 0)' '0)'
mutant torn-root-of-another-array test-pool pool.c \
  'memcmp (slots + ROOT_AT_ARRAY, array, 16) == 0' '1'
mutant root-is-empty-by-its-first-slot test-pool pool.c \
  'return all_zero (slots, (size_t) 2 * POOL_ROOT_BYTES);' 'return all_zero (slots, POOL_ROOT_BYTES);'
mutant pool-of-version-1-is-taken test-pool pool.c \
  'enum { HEADER_VERSION = 2 };' 'enum { HEADER_VERSION = 1 };'
mutant torn-header-of-another-array test-pool pool.c \
  'memcmp (slots + HEADER_AT_ARRAY, array, 16) == 0' '1'

# The messages of a scan.
mutant scan-is-over-by-any-answer test-volumes-messages volumes-messages.c \
  'if (!json_is_null (pool) && !json_is_boolean (scan))' 'if (0)'
mutant scan-goes-on-with-another-weftd test-volumes-messages volumes-messages.c \
  '    return VOLUMES_MESSAGES_ANEW;' '    return VOLUMES_MESSAGES_AGAIN;'
mutant scan-gives-up-a-weftd-that-starts test-volumes-messages volumes-messages.c \
  'if (status < 400 || status >= 500 || status == 429 ||' 'if (status < 400 || status == 429 ||'
mutant scan-says-a-broken-volume-is-fine test-volumes-messages volumes-messages.c \
  '    json_object_set_new (json, "why", json_string (f->why));' '    ;'

# The block of volumes, over the array's.
mutant volumes-hear-of-no-loss test-volumes-block volumes-block.c \
  '    take_losses (vb, now_ns);' '    ;'
mutant volumes-without-a-clock test-volumes-block volumes-block.c \
  '      volume_tick (s->volume, now_ns);' '      ;'
mutant volumes-deadline-is-the-arrays test-volumes-block volumes-block.c \
  '      first = volume_deadline (s->volume);' '      ;'
mutant volumes-client-is-not-given-back test-volumes-block volumes-block.c \
  '  r->client = x->client;' '  ;'

# Windows of segments, and FLUSHes that fail again for one loss.
mutant volume-window-never-gets-smaller test-volume volume-space.c \
  '    v->window /= 2;
    v->taken_ns = v->now;' '    v->taken_ns = v->now;'
mutant volume-window-grows-with-any-grant test-volume volume-space.c \
  'granted >= v->window / 2 &&' ''
mutant volume-empty-place-is-forgotten test-volume volume-space.c \
  '    if (i < v->next_empty)
      v->next_empty = i;' ''
mutant volume-drops-again-for-one-loss test-volume volume-flush.c \
  '    end_group (v, false);
    answer_group (v, EIO);' '    volume_flush_lost (v);
    end_group (v, false);
    answer_group (v, EIO);'
mutant volume-closed-gives-what-is-for-its-log test-volume volume-space.c \
  'uint32_t surplus = spare_for_data (v), kept = space_kept (v, 0);' \
  'uint32_t surplus = spare_for_data (v), kept = 0;'
