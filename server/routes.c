/* routes.c: see routes.h. */

#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "routes-internal.h"
#include "common/refuse.h"

/* Each file that answers requests has a table of its own. */
static const struct route *const tables[] = {
  routes_login,   routes_users,   routes_enroll,  routes_node_token,
  routes_ca,      routes_cluster, routes_node,    routes_disk,
  routes_array,   routes_backup,  routes_rebuild, routes_session,
  routes_layouts, routes_leases,  routes_volumes,
};

const struct route *
routes_at (size_t i)
{
  for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
    for (const struct route *route = tables[t]; route->method; route++)
      if (i-- == 0)
        return route;
  return NULL;
}

#define PARTS_MAX 2
#define PART_BYTES 80

/* Does the path have the pattern's shape?  Its variable parts are copied. */
static bool
shape (const char *pattern, const char *path, char part[PARTS_MAX][PART_BYTES])
{
  unsigned count = 0;
  size_t n;

  while (*pattern) {
    if (*pattern != '{') {
      if (*pattern++ != *path++)
        return false;
      continue;
    }
    n = strcspn (path, "/");
    if (n == 0)
      return false;
    assert (count < PARTS_MAX);
    /* A longer part names nothing, cut or not. */
    snprintf (part[count++], PART_BYTES, "%.*s",
              n < PART_BYTES ? (int) n : PART_BYTES - 1, path);
    path += n;
    pattern = strchr (pattern, '}') + 1;
  }
  return *path == '\0';
}

/* Take what stands in the path for `{what}`.  Returns 0, or -1: why. */
static int
take_part (const char *what, const char *part, struct request *r, char *why,
           size_t why_size)
{
  size_t n = strlen (part);

  if (strncmp (what, "{uuid}", 6) == 0)
    return format_uuid_parse (part, r->uuid) == 0
             ? 0
             : refuse (why, why_size,
                       "the path must name a disk by its UUID in lower case");
  if (strncmp (what, "{id}", 4) == 0)
    return fields_parse_id (part, &r->id)
             ? 0
             : refuse (why, why_size,
                       "the path must name it by its 16 lower-case hex digits");
  if (strncmp (what, "{member}", 8) == 0) {
    r->member = n <= 3 ? (unsigned) atoi (part) : ARRAY_MEMBERS_MAX;
    return r->member < ARRAY_MEMBERS_MAX && strspn (part, "0123456789") == n &&
               (n == 1 || part[0] != '0')
             ? 0
             : refuse (why, why_size,
                       "the path must name a member by its position, 0 to %d",
                       ARRAY_MEMBERS_MAX - 1);
  }
  if (strncmp (what, "{job}", 5) == 0) {
    strcpy (r->job, part);
    return strspn (part, "abcdefghijklmnopqrstuvwxyz0123456789-") == n
             ? 0
             : refuse (why, why_size, "the path must name a job by its id");
  }
  if (!name_valid (part))
    return refuse (why, why_size,
                   "'%s' in the path can be no name: a name has at most %d "
                   "lower-case letters, digits and '-'",
                   part, NAME_BYTES_MAX);
  strcpy (strncmp (what, "{node}", 6) == 0     ? r->node
          : strncmp (what, "{volume}", 8) == 0 ? r->volume
                                               : r->name,
          part);
  return 0;
}

enum route_match
routes_find (const char *method, const char *path, struct request *r,
             char allow[64], char *why, size_t why_size)
{
  char part[PARTS_MAX][PART_BYTES];
  bool head = strcmp (method, "HEAD") == 0;

  allow[0] = '\0';
  for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
    for (const struct route *route = tables[t]; route->method; route++) {
      if (!shape (route->pattern, path, part))
        continue;
      if (strcmp (route->method, head ? "GET" : method) == 0) {
        const char *what = route->pattern;

        request_init (r, route);
        for (unsigned i = 0; (what = strchr (what, '{')) != NULL; i++, what++)
          if (take_part (what, part[i], r, why, why_size) == -1) {
            request_destroy (r);
            return ROUTE_BAD_NAME;
          }
        return ROUTE_MATCH;
      }
      assert (strlen (allow) + 16 < 64);
      if (allow[0])
        strcat (allow, ", ");
      strcat (allow, route->method);
    }
  return allow[0] ? ROUTE_NO_METHOD : ROUTE_NO_PATH;
}
