/* test-member-source.c: the data that a member gives to a joining one: each layout, each
 * pair of members, and each block.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "layout/layout.h"
#include "test-member-rig.h"
#include "test-random.h"

#define UNIT 65536
#define SESSION 7

static const struct shape {
  enum layout_kind kind;
  unsigned n, groups, units; /* of a member */
} shapes[] = {
  { LAYOUT_RAIDX, 3, 1, 24 },  { LAYOUT_RAIDX, 4, 2, 24 },
  { LAYOUT_RAIDX, 5, 1, 40 },  { LAYOUT_RAID10, 2, 1, 8 },
  { LAYOUT_RAID10, 4, 2, 8 },  { LAYOUT_RAID10, 6, 1, 8 },
  { LAYOUT_CHAINED, 2, 1, 8 }, { LAYOUT_CHAINED, 5, 2, 128 },
  { LAYOUT_ROTATED, 4, 1, 2 }, { LAYOUT_ROTATED, 5, 1, 24 },
  { LAYOUT_RAID1, 2, 2, 8 },   { LAYOUT_RAID1, 4, 1, 8 },
  { LAYOUT_RAID0, 3, 1, 8 },
};

static struct layout layout;

/* A life of the member at this place begins. */
static void
serve (const struct shape *s, unsigned place)
{
  struct superblock sb = {
    .layout = s->kind,
    .n = s->n,
    .groups = s->groups,
    .unit = UNIT,
    .position = place,
    .data_bytes = (s->units + 1) * UNIT,
    .member_bytes = layout.member_bytes,
    .states_epoch = 1,
  };

  disk_format (sb, intents_extents (sb.data_bytes));
  disk_start (true);
  do_actions (false);
}

static struct token
token_of (unsigned joiner)
{
  struct token t = {
    .session = SESSION, .epoch = m->gate, .joins = true, .place = joiner
  };

  memcpy (t.array, array, 16);
  memcpy (t.member, disk_id, 16);
  return t;
}

static enum member_verdict
open_as (const struct token *t, const char *door,
         const struct member_client *client, struct member_pass **p,
         struct member_refusal *refusal)
{
  char name[TOKEN_BYTES_MAX + 16], text[TOKEN_BYTES_MAX + 1];
  enum member_verdict v;

  token_mint (t, key, text);
  snprintf (name, sizeof name, "%s/%s", door, text);
  while ((v = member_open (m, name, client, p, refusal)) == MEMBER_WAIT)
    CHECK (do_actions (false) > 0);
  return v;
}

/* By the node's own certificate; NULL: by none. */
static enum member_verdict
open_by (const struct token *t, const char *door, const char *node,
         struct member_pass **p, struct member_refusal *refusal)
{
  const struct member_client client = { .node = node, .process = "" };

  return open_as (t, door, node ? &client : NULL, p, refusal);
}

static int
reads (struct member_pass *p, uint64_t offset, uint64_t length, uint64_t now)
{
  struct member_request r = {
    .reads = true, .offset = offset, .length = length, .now_ms = now
  };
  struct member_refusal refusal = { 0 };
  enum member_verdict v = member_admit (m, p, &r, &refusal);

  member_leave (m, &r);
  CHECK (v == MEMBER_GO || v == MEMBER_REFUSE);
  CHECK (v == MEMBER_GO || refusal.why[0]);
  return v == MEMBER_GO ? 0 : refusal.error;
}

/* By the array's own order: does this unit of a member have a copy at `joiner`? */
static void
draw (const struct shape *s, unsigned place, unsigned joiner, bool needed[])
{
  struct layout_piece p;

  memset (needed, 0, (s->units + 1) * sizeof needed[0]);
  for (uint64_t at = 0; at < layout.size; at += UNIT) {
    unsigned here = UINT32_MAX;
    bool there = false;

    layout_map (&layout, at, UNIT, &p);
    for (unsigned i = 0; i < p.copies; i++) {
      if (p.copy[i].member == place)
        here = p.copy[i].offset / UNIT;
      there |= p.copy[i].member == joiner;
    }
    if (here != UINT32_MAX && there)
      needed[here] = true;
  }
}

/* The intent map, all of whose bits are set. */
static void
check_map (const struct shape *s, struct member_pass *p, const bool needed[])
{
  uint8_t map[8] = { 0 };
  bool wanted[64] = { false };

  for (unsigned u = 0; u < s->units; u++)
    wanted[u * UNIT / EXTENT_BYTES] |= needed[u];
  CHECK (member_map_bytes (m) <= sizeof map);
  member_map_read (m, 0, member_map_bytes (m), map);
  CHECK (map[0] & 1);
  member_pass_mask (p, 0, member_map_bytes (m), map);
  for (unsigned e = 0; e < 64; e++)
    CHECK ((map[e / 8] >> e % 8 & 1) == wanted[e]);
}

/* The pair of them: every block, and ranges over several units. */
static void
check_pair (const struct shape *s, unsigned place, unsigned joiner)
{
  bool needed[256], any = false;
  struct member_refusal refusal;
  struct member_pass *p = NULL;
  struct token t = token_of (joiner);
  enum member_verdict v;

  draw (s, place, joiner, needed);
  for (unsigned u = 0; u < s->units; u++)
    any |= needed[u];
  v = open_by (&t, "data", NULL, &p, &refusal);
  CHECK (v == (any && joiner != place ? MEMBER_GO : MEMBER_REFUSE));
  if (v != MEMBER_GO)
    return;
  CHECK (member_pass_joins (p) && !member_pass_writable (p));
  for (uint64_t at = 0; at < m->confirmed.data_bytes; at += BAD_BLOCK_BYTES)
    CHECK (reads (p, at, BAD_BLOCK_BYTES, 0) ==
           (needed[at / UNIT] ? 0 : EPERM));
  for (int i = 0; i < 200; i++) {
    uint64_t at = test_random (m->confirmed.data_bytes);
    uint64_t length = 1 + test_random (m->confirmed.data_bytes - at);
    bool all = true;

    if (test_random (2) && length > 2 * UNIT)
      length = 2 * UNIT;
    for (uint64_t u = at / UNIT; u <= (at + length - 1) / UNIT; u++)
      all &= needed[u];
    CHECK (reads (p, at, length, 0) == (all ? 0 : EPERM));
  }
  check_map (s, p, needed);
  member_close (m, p);
}

static void
test_every_block (void)
{
  for (unsigned i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    const struct shape *s = &shapes[i];
    char why[256];

    CHECK (layout_init (&layout, s->kind, s->n, s->groups, UNIT,
                        s->units * UNIT, why, sizeof why) == 0);
    for (unsigned place = 0; place < layout.members; place++) {
      serve (s, place);
      for (unsigned joiner = 0; joiner < layout.members + 1; joiner++)
        check_pair (s, place, joiner);
      member_free (m);
    }
  }
}

/* Whose certificate is it, by which door, and is weftd heard? */
static void
test_bounds (void)
{
  const struct shape s = { LAYOUT_RAID1, 2, 1, 8 };
  struct member_refusal refusal;
  struct member_pass *p = NULL;
  struct token t;
  char why[256];

  CHECK (layout_init (&layout, s.kind, s.n, s.groups, UNIT, s.units * UNIT, why,
                      sizeof why) == 0);
  serve (&s, 0);
  t = token_of (1);
  strcpy (t.node, "n1");
  CHECK (open_by (&t, "data", NULL, &p, &refusal) == MEMBER_REFUSE);
  CHECK (refusal.error == EACCES && strstr (refusal.why, "no certificate"));
  CHECK (open_by (&t, "intents", "n2", &p, &refusal) == MEMBER_REFUSE);
  CHECK (strstr (refusal.why, "for node n1") &&
         strstr (refusal.why, "node n2"));
  CHECK (open_by (&t, "batch", "n1", &p, &refusal) == MEMBER_REFUSE);
  t.writable = true;
  CHECK (open_by (&t, "data", "n1", &p, &refusal) == MEMBER_REFUSE);
  t.writable = false;
  CHECK (open_by (&t, "data", "n1", &p, &refusal) == MEMBER_GO);

  member_heard (m, 5000);
  CHECK (reads (p, 0, 512, 5000 + SOURCE_TTL_MS) == 0);
  CHECK (reads (p, 0, 512, 5001 + SOURCE_TTL_MS) == ESHUTDOWN);
  member_heard (m, 5001);
  CHECK (reads (p, 0, 512, 5001 + SOURCE_TTL_MS) == 0);
  member_close (m, p);

  /* A session's: the same certificate, and all of the member. */
  t.joins = false;
  t.writable = true;
  CHECK (open_by (&t, "data", NULL, &p, &refusal) == MEMBER_REFUSE);
  CHECK (open_by (&t, "batch", "n2", &p, &refusal) == MEMBER_REFUSE);
  CHECK (open_by (&t, "data", "n1", &p, &refusal) == MEMBER_GO);
  CHECK (!member_pass_joins (p));
  CHECK (reads (p, s.units * UNIT, 512, UINT64_MAX) == 0);
  member_close (m, p);
  member_free (m);
}

/* Each kind of token by each kind of certificate, bound to nothing, to a node, and to one
 * of its processes.
 */
static void
test_processes (void)
{
#define DISK "00000000-0000-4000-8000-00000000000"
  static const struct {
    const char *process;
    bool session, rebuild; /* may it have a token of this kind ... */
    bool is_bound;         /* ... also of its process? */
  } kinds[] = {
    { "", true, true, true },
    { "array:a", true, false, true },
    { "array:b", true, false, false },
    { "array:", true, false, false },
    { "array:aa", true, false, false },
    { "array:" DISK "1", true, false, false },
    { "disk:" DISK "1", false, true, true },
    { "disk:" DISK "2", false, true, false },
    { "disk:a", false, true, false },
    { "?", false, false, false },
  };
  const struct shape s = { LAYOUT_RAID1, 2, 1, 8 };
  struct member_refusal refusal;
  struct member_pass *p = NULL;
  char why[256];

  CHECK (layout_init (&layout, s.kind, s.n, s.groups, UNIT, s.units * UNIT, why,
                      sizeof why) == 0);
  serve (&s, 0);
  for (unsigned i = 0; i < 2 * 3 * sizeof kinds / sizeof kinds[0]; i++) {
    const struct member_client client = { .node = "n1",
                                          .process = kinds[i / 6].process };
    const unsigned bound = i % 6 / 2;
    struct token t = token_of (1);
    bool fine;

    t.joins = i & 1;
    t.writable = !t.joins;
    strcpy (t.node, bound >= 1 ? "n1" : "");
    strcpy (t.process, bound < 2 ? "" : t.joins ? DISK "1" : "a");
    fine = (t.joins ? kinds[i / 6].rebuild : kinds[i / 6].session) &&
           (bound < 2 || kinds[i / 6].is_bound);
    CHECK (open_as (&t, "data", &client, &p, &refusal) ==
           (fine ? MEMBER_GO : MEMBER_REFUSE));
    if (fine)
      member_close (m, p);
    else
      CHECK (refusal.error == EACCES && strstr (refusal.why, client.process));
  }
  member_free (m);
}

int
main (void)
{
  test_random_start ();
  test_processes ();
  test_every_block ();
  test_bounds ();
  return 0;
}
