/* cluster-found.c: a finished scan of a pool is judged as a whole, before anything of it is
 * taken over.  After that each volume that is found has a UUID and a name of its own.
 *
 * A volume with the UUID of another one, of this pool or of another array, is broken: only
 * damage or a process that lies makes such a root.  A second volume of one name is renamed.
 */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "cluster-inputs.h"

static struct cluster_found *
found_at (const struct cluster_pool *p, unsigned root)
{
  struct cluster_found *f = &p->scan->found[root];

  return f->there ? f : NULL;
}

bool
cluster_found_uuid (const struct cluster_pool *p, const uint8_t uuid[16])
{
  const struct cluster_found *f;

  for (unsigned root = 0; root < p->geometry.roots; root++)
    if ((f = found_at (p, root)) && !f->renewed &&
        cluster_uuid_equal (f->uuid, uuid))
      return true;
  return false;
}

static bool
named (const struct cluster_pool *p, const char *name,
       const struct cluster_found *but)
{
  const struct cluster_found *f;

  for (unsigned root = 0; root < p->geometry.roots; root++)
    if ((f = found_at (p, root)) && f != but && strcmp (f->name, name) == 0)
      return true;
  return false;
}

bool
cluster_found_name (const struct cluster_pool *p, const char *name)
{
  return named (p, name, NULL);
}

/* ---- UUIDs. ---- */

static int
compare (const void *a, const void *b)
{
  const struct cluster_found *const *f = a, *const *g = b;
  int differs = memcmp ((*f)->uuid, (*g)->uuid, 16);

  return differs ? differs : (*f > *g) - (*f < *g);
}

static int
compare_uuid (const void *uuid, const void *element)
{
  const struct cluster_found *const *f = element;

  return memcmp (uuid, (*f)->uuid, 16);
}

/* Two roots of the pool have one UUID.  The first one keeps it. */
static void
judge_twins (const struct cluster_pool *p, struct cluster_found **list,
             unsigned count)
{
  const struct cluster_found *all = p->scan->found;

  for (unsigned i = 1; i < count; i++) {
    struct cluster_found *f = list[i - 1], *g = list[i];

    if (!cluster_uuid_equal (f->uuid, g->uuid))
      continue;
    g->renewed = true;
    snprintf (f->why, sizeof f->why,
              "it and the volume of root %u have one UUID",
              (unsigned) (g - all));
    snprintf (g->why, sizeof g->why,
              "it and the volume of root %u have one UUID",
              (unsigned) (f - all));
  }
}

/* Another array has a volume of this UUID, which is the key of that one's record. */
static void
judge_strangers (const struct cluster *c, const struct cluster_array *a,
                 struct cluster_found **list, unsigned count)
{
  const struct cluster_array *other;
  const struct cluster_volume *v;

  TAILQ_FOREACH (other, &c->arrays, link) {
    if (other == a || other->pool == NULL)
      continue;
    TAILQ_FOREACH (v, &other->pool->volumes, link) {
      struct cluster_found **f = bsearch (v->rec.uuid, list, count,
                                          sizeof (struct cluster_found *),
                                          compare_uuid);

      if (f == NULL)
        continue;
      for (unsigned root = 0; root < a->pool->geometry.roots; root++) {
        struct cluster_found *g = found_at (a->pool, root);

        if (g && cluster_uuid_equal (g->uuid, v->rec.uuid)) {
          g->renewed = true;
          snprintf (g->why, sizeof g->why, "it has the UUID of volume %s/%s",
                    other->rec.name, v->rec.name);
        }
      }
    }
  }
}

/* A root that can't be read is the volume that the database has there, unless that is found
 * elsewhere.
 */
static void
give_uuid (const struct cluster_input *in, const struct cluster_array *a,
           unsigned root)
{
  struct cluster_found *f = found_at (a->pool, root);
  const struct cluster_volume *v = cluster_volume_by_root (a, root);
  uint8_t random[KEY_BYTES];

  if (!f->renewed && v && !cluster_found_uuid (a->pool, v->rec.uuid)) {
    memcpy (f->uuid, v->rec.uuid, 16);
    return;
  }
  cluster_import_key (in->random, a->rec.uuid, root, random);
  cluster_uuid_make (random, f->uuid);
  f->renewed = false;
}

static void
settle_uuids (const struct cluster *c, const struct cluster_input *in,
              const struct cluster_array *a)
{
  const struct cluster_pool *p = a->pool;
  struct cluster_found *list[POOL_ROOTS_MAX], *f;
  unsigned count = 0;

  for (unsigned root = 0; root < p->geometry.roots; root++)
    if ((f = found_at (p, root)) && !cluster_uuid_is_zero (f->uuid))
      list[count++] = f;
  qsort (list, count, sizeof list[0], compare);
  judge_twins (p, list, count);
  judge_strangers (c, a, list, count);
  for (unsigned root = 0; root < p->geometry.roots; root++)
    if ((f = found_at (p, root)) &&
        (f->renewed || cluster_uuid_is_zero (f->uuid)))
      give_uuid (in, a, root);
}

/* ---- Names. ---- */

/* Has another volume that is found this name, or one that stays though it is not? */
static bool
taken (const struct cluster_array *a, const char *name,
       const struct cluster_found *but)
{
  const struct cluster_volume *v = cluster_volume_find (a, name);

  return named (a->pool, name, but) ||
         (v && !cluster_found_uuid (a->pool, v->rec.uuid));
}

/* broken-7, broken-7-2, ... */
static void
make_name (const struct cluster_array *a, unsigned root, const char *word)
{
  struct cluster_found *f = found_at (a->pool, root);
  char name[NAME_BYTES_MAX + 1];

  snprintf (name, sizeof name, "%s-%u", word, root);
  for (unsigned i = 2; taken (a, name, f); i++)
    snprintf (name, sizeof name, "%s-%u-%u", word, root, i);
  strcpy (f->name, name);
}

static void
settle_name (struct cluster *c, const struct cluster_array *a, unsigned root)
{
  struct cluster_found *f = found_at (a->pool, root);
  const struct cluster_volume *v = cluster_volume_by_uuid (a, f->uuid);
  char was[sizeof f->name];

  if (name_valid (f->name)) {
    if (!named (a->pool, f->name, f))
      return;
    snprintf (was, sizeof was, "%s", f->name);
    make_name (a, root, "found");
    cluster_step_log (c, CLUSTER_WARNING, "array", a->rec.name,
                      "Pool %s has two volumes %s: that of root %u is called "
                      "%s.",
                      a->rec.name, was, root, f->name);
  }
  else if (v && !named (a->pool, v->rec.name, f))
    snprintf (f->name, sizeof f->name, "%s", v->rec.name);
  else
    make_name (a, root, "broken");
}

void
cluster_found_settle (struct cluster *c, const struct cluster_input *in,
                      const struct cluster_array *a)
{
  const struct cluster_pool *p = a->pool;
  struct cluster_found *f;

  settle_uuids (c, in, a);
  /* The first one of a name keeps it. */
  for (unsigned root = p->geometry.roots; root-- > 0;)
    if ((f = found_at (p, root))) {
      settle_name (c, a, root);
      if (f->why[0] && (f->size % 512 != 0 || f->size > VOLUME_BYTES_MAX))
        f->size = 0;
    }
}
