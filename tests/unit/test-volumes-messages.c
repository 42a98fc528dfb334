/* test-volumes-messages.c: the messages of an array process and weftd in a scan of a pool
 * (plugin/volumes-messages.c).
 */

#include <config.h>

#include <string.h>

#include "plugin/volumes-messages.h"
#include "test-random.h"

static enum volumes_messages_next
answered (int status, const char *code, const char *text, bool *over)
{
  json_t *reply = text ? json_loads (text, 0, NULL) : NULL;
  enum volumes_messages_next next;

  *over = false;
  next = volumes_messages_scanned (status, code, reply, over);
  json_decref (reply);
  return next;
}

static void
test_answers (void)
{
  bool over;

  CHECK (answered (200, "", "{\"pool\": {\"scan\": true}}", &over) ==
           VOLUMES_MESSAGES_NEXT &&
         !over);
  CHECK (answered (200, "", "{\"pool\": {\"scan\": false}}", &over) ==
           VOLUMES_MESSAGES_NEXT &&
         over);
  CHECK (answered (200, "", "{\"pool\": null}", &over) ==
           VOLUMES_MESSAGES_NEXT &&
         over);
  /* Such an answer does not say that the scan is over. */
  CHECK (answered (200, "", "{\"pool\": {}}", &over) ==
         VOLUMES_MESSAGES_REFUSED);
  CHECK (answered (200, "", "{}", &over) == VOLUMES_MESSAGES_REFUSED && !over);
  CHECK (answered (200, "", NULL, &over) == VOLUMES_MESSAGES_REFUSED && !over);
  CHECK (answered (-1, "", NULL, &over) == VOLUMES_MESSAGES_AGAIN);
  CHECK (answered (503, "starting", NULL, &over) == VOLUMES_MESSAGES_AGAIN);
  CHECK (answered (429, "", NULL, &over) == VOLUMES_MESSAGES_AGAIN);
  CHECK (answered (409, "doubted", NULL, &over) == VOLUMES_MESSAGES_AGAIN);
  CHECK (answered (409, "scan", NULL, &over) == VOLUMES_MESSAGES_ANEW);
  CHECK (answered (409, "not-pool", NULL, &over) == VOLUMES_MESSAGES_REFUSED);
  CHECK (answered (410, "scan", NULL, &over) == VOLUMES_MESSAGES_REFUSED);
  CHECK (answered (422, "run", NULL, &over) == VOLUMES_MESSAGES_REFUSED);
}

/* The body is exactly this. */
static void
says (json_t *body, const char *text)
{
  json_t *expected = json_loads (text, 0, NULL);

  CHECK (expected && json_equal (body, expected));
  json_decref (body);
  json_decref (expected);
}

static void
test_messages (void)
{
  static const uint8_t uuid[16] = { 1, 2 };
  static const struct volume_run runs[] = { { 7, 2 }, { 20, 1 } };
  struct volumes_messages_found f = {
    .root = 3, .uuid = uuid, .name = "vm1", .size = 512, .kept = 4
  };

  says (volumes_messages_scan ("i", VOLUMES_MESSAGES_BEGIN, 0, NULL, NULL, 0),
        "{\"instance\": \"i\", \"begin\": true}");
  says (
    volumes_messages_scan ("i", VOLUMES_MESSAGES_BEGIN, 1048576, NULL, NULL, 0),
    "{\"instance\": \"i\", \"begin\": true, \"segment_bytes\": 1048576}");
  says (volumes_messages_scan ("i", VOLUMES_MESSAGES_END, 0, NULL, NULL, 0),
        "{\"instance\": \"i\", \"end\": true}");
  says (volumes_messages_scan ("i", 0, 0, &f, runs, 2),
        "{\"instance\": \"i\", \"volumes\": [{\"root\": 3, \"uuid\": "
        "\"01020000-0000-0000-0000-000000000000\", \"name\": \"vm1\", "
        "\"size\": 512, \"kept\": 4, \"runs\": [[7, 2], [20, 1]]}]}");
  f = (struct volumes_messages_found) { .root = 5, .why = "it is torn" };
  says (volumes_messages_scan ("i", 0, 0, &f, NULL, 0),
        "{\"instance\": \"i\", \"volumes\": [{\"root\": 5, \"runs\": [], "
        "\"why\": \"it is torn\"}]}");
}

int
main (void)
{
  test_answers ();
  test_messages ();
  return 0;
}
