/* control-attach.c: the beginning and the end of a session with weftd. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "control-internal.h"
#include "loss.h"
#include "role.h"

#define ATTACH_TIMEOUT_MS 30000
#define ATTACH_WAIT_MS 15000 /* for a silent holder, or for members */
#define DETACH_TIMEOUT_MS 3000
#define HOLDER_SIGNS 2

int
control_make_instance (char text[33])
{
  uint8_t r[16];
  unsigned i;

  if (getrandom (r, sizeof r, 0) != sizeof r) {
    nbdkit_error ("getrandom: %m");
    return -1;
  }
  for (i = 0; i < sizeof r; i++)
    sprintf (text + 2 * i, "%02x", r[i]);
  return 0;
}

/* weftd's answer to an attach, in which everything is to be found. */
static struct map *
take_answer (struct control *c, const json_t *reply)
{
  const char *session =
      json_string_value (json_object_get (reply, "session"));
  char why[512];
  struct map *m;
  unsigned i;

  if (session == NULL || session[0] == '\0' ||
      strlen (session) > NAME_BYTES_MAX ||
      session[strspn (session, "0123456789abcdef")]) {
    nbdkit_error ("array %s: weftd's answer has no usable session; are weftd "
                  "and this nbdkit of the same version?", params.array);
    return NULL;
  }
  strcpy (c->session, session);
  m = map_from_json (json_object_get (reply, "map"), why, sizeof why);
  if (m == NULL) {
    nbdkit_error ("array %s: weftd's map is not usable: %s", params.array,
                  why);
    return NULL;
  }
  loss_take (reply);
  c->epoch = m->epoch;
  c->members = m->members;
  for (i = 0; i < m->members; i++)
    c->states[i] = m->member[i].state;
  return m;
}

/* Who holds the array that we want, as far as we see. */
struct holder {
  bool asked;
  json_int_t heard_ms; /* how long ago it was heard, when asked before */
  unsigned signs;      /* of life that we have seen */
};

/* How long to wait before asking again, 0 for no use.  weftd says how long to
 * wait for what will pass, such as a holder that is silent.  One that may have
 * died a moment ago is not silent yet: ask again to see whether it is heard
 * more than once, for its last words may have been under way.
 */
static unsigned
retry_after (int status, const json_t *reply, struct holder *h)
{
  const json_t *holder = json_object_get (reply, "holder");
  json_int_t ms = json_integer_value (json_object_get (reply,
                                                       "retry_after_ms"));
  json_int_t heard = json_integer_value (json_object_get (holder,
                                                          "last_heard_ms"));

  if (status != 409)
    return 0;
  if (ms > 0)
    return ms > ATTACH_WAIT_MS ? ATTACH_WAIT_MS : (unsigned) ms;
  if (holder == NULL)
    return 0;
  h->signs += h->asked && heard < h->heard_ms + RETRY_MS / 2;
  h->asked = true;
  h->heard_ms = heard;
  return h->signs < HOLDER_SIGNS ? RETRY_MS : 0;
}

/* Has the holder's process ended on this host?  Then weftd is told, in `body`, and
 * does not wait until it has been silent for long.  True: told for the first time.
 */
static bool
tell_ended (json_t *body, const json_t *reply)
{
  const json_t *holder = json_object_get (reply, "holder");
  const char *process =
      json_string_value (json_object_get (holder, "process"));
  json_t *session = json_object_get (holder, "session");

  if (process == NULL || json_equal (json_object_get (body, "ended"), session) ||
      !process_has_ended (process))
    return false;
  json_object_set (body, "ended", session);
  return true;
}

struct map *
control_attach_session (struct control *c)
{
  json_t *body, *reply = NULL;
  struct map *m = NULL;
  char path[128];
  unsigned waited = 0, wait;
  struct holder holder = { .asked = false };
  int status;

  body = json_pack ("{s:s, s:s, s:i, s:s, s:s?}", "instance", c->instance,
                    "node", params.node, "pid", (int) getpid (), "mode",
                    c->readonly ? "ro" : "rw", "uri", params.uri);
  if (body == NULL) {
    nbdkit_error ("array %s: can't make the request; node= and uri= must be "
                  "UTF-8", params.array);
    return NULL;
  }
  if (params.takeover)
    json_object_set_new (body, "takeover", json_true ());
  snprintf (path, sizeof path, "/api/v1/arrays/%s/sessions", params.array);
  for (;;) {
    c->heard_ms = control_now_ms ();
    status = admin_call (c->admin, "POST", path, body, &reply,
                         ATTACH_TIMEOUT_MS);
    wait = retry_after (status, reply, &holder);
    if (wait == 0 || waited >= ATTACH_WAIT_MS)
      break;
    if (tell_ended (body, reply)) {
      json_decref (reply);
      reply = NULL;
      continue;
    }
    if (wait < RETRY_MS / 2)
      wait = RETRY_MS / 2;
    if (waited == 0)
      fprintf (stderr, "nbdkit: weft: %s; trying again for up to %u s\n",
               admin_error (c->admin), ATTACH_WAIT_MS / 1000);
    usleep (wait * 1000);
    waited += wait;
    json_decref (reply);
    reply = NULL;
  }
  if (status == 200 || status == 201)
    m = take_answer (c, reply);
  else
    nbdkit_error ("array %s: %s", params.array, admin_error (c->admin));
  json_decref (reply);
  json_decref (body);
  return m;
}

/* On a client of its own: the other ones are cancelled for good. */
void
control_detach_session (struct control *c)
{
  struct admin *admin = admin_new (params.admin, params.tls, NULL);
  char path[128];
  int status;

  if (admin == NULL)
    return;
  snprintf (path, sizeof path, "/api/v1/sessions/%s?instance=%s", c->session,
            c->instance);
  status = admin_call (admin, "DELETE", path, NULL, NULL, DETACH_TIMEOUT_MS);
  if (status == -1 || (status >= 400 && status != 404 && status != 410))
    nbdkit_error ("array %s: can't detach: %s; the session ends by itself",
                  params.array, admin_error (admin));
  admin_free (admin);
}
