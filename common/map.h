/* map.h: an array's members and layout as JSON: the static map of
 * `nbdkit weft map=FILE`, and weftd's reply to an attach, are the same text.
 *
 *   {"name": "a", "layout": "raid-x", "n": 4, "groups": 1, "unit": 262144,
 *    "dup": "async-client", "epoch": 3, "session": "…", "member_bytes": …,
 *    "members": [{"uri": "nbd://…", "name": "m0", "state": "in-sync",
 *                 "fence": 2, "lapse": 1, "life": 1, "round": 7, "known": true,
 *                 "tokens": {"data": "…", "batch": "…", "intents": "…"}}, …]}
 *
 * Only `layout`, `unit` and the members' `uri` are needed in a static map: n
 * is then the number of members / groups, groups 1, epoch 0, every state
 * in-sync, and without tokens a member is a plain NBD export with no batch
 * door.  `member_bytes` defaults to the smallest member's size.  `fence`, `lapse`,
 * `life`, `round` and `known` are weftd's alone.
 */

#ifndef WEFT_MAP_H
#define WEFT_MAP_H

#include <stdbool.h>
#include <jansson.h>

#include "format/format.h"

struct map_member {
  char *name;
  char *uri;
  enum member_state state;
  uint64_t fence; /* no request to it of an older epoch runs any more */
  uint64_t lapse; /* its unflushed writes of older epochs may be lost */
  /* requests from this epoch on went to the process that serves it now */
  uint64_t life;
  uint64_t round; /* the newest round of the array that its disk has noted */
  /* The same; but the array's own round where `known` says that the disk is no old
   * copy, and so has all that was written up to then.
   */
  uint64_t reach;
  bool known;          /* its process was in-sync while the last writer wrote */
  uint64_t life_round; /* which it had noted when its process was met */
  char *token_data, *token_batch, *token_intents; /* NULL: plain NBD export */
};

struct map {
  char *name;
  enum layout_kind layout;
  unsigned n, groups, members;
  uint64_t unit;
  enum array_dup dup;
  uint64_t epoch;
  uint64_t round;        /* the highest that weftd has heard of */
  char *session;         /* NULL in a static map */
  uint64_t member_bytes; /* 0: not given */
  struct map_member member[ARRAY_MEMBERS_MAX];
};

/* A copy for a thread of its own; false: out of memory, and *to is empty. */
bool map_member_copy (struct map_member *to, const struct map_member *from);
void map_member_free (struct map_member *mm);

/* Returns NULL with a sentence in why that names the field. */
struct map *map_from_json (const json_t *json, char *why, size_t why_size);
struct map *map_from_file (const char *path, char *why, size_t why_size);
void map_free (struct map *m);

#endif /* WEFT_MAP_H */
