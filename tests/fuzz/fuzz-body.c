/* fuzz-body.c: the bodies of all routes of the API, as server/http-body.c reads them,
 * up to what the route makes of them; nothing is done with that here (fuzz-api.c).
 *
 * The input: 1 byte, the route; 1 byte, whether somebody is logged in; the body.
 */

#include <config.h>

#include <stdio.h>

#include "fuzz.h"
#include "fuzz-civetweb.h"

#include "server/http-body.c"

/* Only routes with a body count. */
static const struct route *
route_at (unsigned n)
{
  static const struct route *all[256];
  static unsigned count;

  for (size_t i = 0; all[0] == NULL || i > 0; i++) {
    const struct route *r = routes_at (i);

    if (r == NULL)
      break;
    if (r->parse)
      all[count++] = r;
  }
  return all[n % count];
}

/* Does the route take the body? */
static bool
takes (unsigned route, bool stranger, const char *body, size_t bytes)
{
  struct mg_connection conn = { .writes_left = SIZE_MAX };
  struct request r;
  bool taken;

  request_init (&r, route_at (route));
  r.caller.role = stranger ? ROLE_NOBODY : ROLE_ADMIN;
  strcpy (r.name, "a");
  conn.body = body;
  conn.body_left = bytes;
  conn.info.request_method = r.route->method;
  conn.info.content_length = (long long) bytes;
  conn.info.num_headers = 1;
  conn.info.http_headers[0].name = "Content-Type";
  conn.info.http_headers[0].value = "application/json";
  taken = http_body_take (&conn, &r);
  if (taken)
    assert (conn.answer == NULL);
  else
    assert (fuzz_status (&conn) >= 400);
  fuzz_request_end (&conn);
  request_destroy (&r);
  return taken;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz f = { data, size };
  unsigned route = (unsigned) fuzz_number (&f, 1);
  bool stranger = !(fuzz_number (&f, 1) & 1);
  size_t n;
  char *body = fuzz_rest (&f, &n);

  takes (route, stranger, body, n);
  free (body);
  return 0;
}

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  static const char *const bodies[] = {
    "{\"instance\": \"d1\", \"node\": \"n1\", \"uri\": \"nbd://n1:10810\", "
    "\"path\": \"/dev/sdb\", \"cache\": \"boot 8:1 4\", \"size\": 1074790400, "
    "\"data_bytes\": 1073741824, \"cluster\": "
    "\"01000000-0000-0000-0000-000000000000\", \"min_epoch\": 3, "
    "\"generation\": 1, \"states_epoch\": 3, \"sequence\": 7, \"round\": 2, "
    "\"state\": \"serving\", \"reason\": \"none\", \"report\": 1, \"news\": "
    "true, "
    "\"wait_ms\": 0, \"dirty_extents\": 4, \"array\": "
    "\"03000000-0000-0000-0000-000000000000\", \"position\": 1, \"layout\": "
    "\"raid-x\", \"dup\": \"async-client\", \"n\": 3, \"groups\": 1, \"unit\": "
    "65536, \"member_bytes\": 8388608, \"states\": [\"in-sync\", \"out\", "
    "\"joining\"], \"join\": {\"epoch\": 3, \"phase\": \"copying\", "
    "\"todo_bytes\": 9, \"waits\": \"none\"}, \"bad\": {\"sequence\": 1, "
    "\"ranges\": [[5, 1, 1], [9, 3, 2]]}, \"load\": {\"cpu\": 0.5, "
    "\"loadavg\": 1, \"mem_free\": 99, \"disk_reads\": 5}}",
    "{\"instance\": \"d1\", \"node\": \"n1\", \"news\": false, \"report\": 1, "
    "\"wait_ms\": 1000}",
    "{\"instance\": \"h1\", \"node\": \"n1\", \"pid\": 17, \"mode\": \"rw\", "
    "\"uri\": \"nbd://n1:10809\", \"takeover\": true, \"ended\": "
    "\"00112233445566ff\"}",
    "{\"instance\": \"h1\", \"epoch\": 3, \"prepared\": 4, \"process\": \"x\", "
    "\"round\": 5, \"fences\": 1, \"uri\": \"nbd://n1\", \"draining\": false, "
    "\"news\": true, \"wait_ms\": 0, \"stats\": {\"reads\": 1, \"read_ns\": 5, "
    "\"requests_waiting\": 1, \"read_latency\": {\"sum_us\": 7, \"counts\": "
    "[1, "
    "2, 3.0]}, \"members\": [{\"service_us\": 4, \"suspect\": true, "
    "\"latency\": {\"sum_us\": 1, \"counts\": []}}]}}",
    "{\"member\": 2, \"round\": 7, \"reason\": \"it is gone\"}",
    "{\"instance\": \"h1\", \"number\": 7, \"give\": [[0, 512], [4096, "
    "1.0]], "
    "\"declare\": [], \"recovered\": 3, \"ask\": [{\"must\": [512, 512], "
    "\"wish\": [0, 1048576]}], \"wait_ms\": 2000}",
    "{\"name\": \"a\", \"layout\": \"raid-10\", \"unit\": 65536, \"groups\": "
    "1, "
    "\"dup\": \"sync-client\", \"disks\": "
    "[\"01000000-0000-0000-0000-000000000000\", "
    "\"02000000-0000-0000-0000-000000000000\"]}",
    "{\"ranges\": [{\"offset\": 4096, \"length\": 8192}]}",
    "{\"spare_after_s\": 600}",
    "{\"nodes\": [\"n1\", \"n2\"]}",
    "{\"node\": \"n1\"}",
    "{\"token\": \"00112233\", \"user\": \"kim\", \"password\": \"long enough, "
    "it is\"}",
    "{\"user\": \"kim\", \"password\": \"long enough, it is\"}",
    "{\"name\": \"kim\", \"role\": \"viewer\", \"password\": \"long enough, it "
    "is\"}",
    "{\"password\": \"long enough, it is\", \"current\": \"long before\"}",
    "{\"name\": \"t\", \"role\": \"admin\", \"expires_s\": 60, \"login\": "
    "true}",
    "{\"token\": \"00112233\", \"node\": \"n1\", \"csr\": \"-----BEGIN\"}",
    "{\"csr\": \"-----BEGIN\"}",
    "{\"disk\": \"01000000-0000-0000-0000-000000000000\"}",
    "{\"paused\": true, \"rate_floor\": 1, \"rate_ceiling\": 2}",
    "{\"maintenance\": true, \"force\": false, \"draining\": true}",
    "{\"name\": \"a\", \"array\": \"03000000-0000-0000-0000-000000000000\", "
    "\"without\": [1]}",
    "{\"text\": \"\\u00fc\\n\\ud83d\\ude00 \\u0000\", \"x\": [[[[[[[[]]]]]]]], "
    "\"y\": 1e308, \"z\": -9223372036854775808}",
  };
  char input[8192];

  /* With each route that takes it, and the first, which takes none of them. */
  for (unsigned i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
    for (unsigned route = 0; route == 0 || route_at (route) != route_at (0);
         route++)
      if (route == 0 || takes (route, false, bodies[i], strlen (bodies[i]))) {
        int n = snprintf (input, sizeof input, "%c1%s", (char) route,
                          bodies[i]);

        assert (n > 0 && (size_t) n < sizeof input);
        seed (input, (size_t) n);
      }
}
