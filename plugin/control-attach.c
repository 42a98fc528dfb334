/* control-attach.c: the beginning and the end of a session with weftd. */

#include <config.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "control-internal.h"
#include "exposure.h"
#include "guests.h"
#include "loss.h"
#include "nbdkit-options.h"
#include "revoked.h"
#include "role.h"

#define ATTACH_TIMEOUT_MS 30000
#define DETACH_TIMEOUT_MS 3000

/* weftd's answer to an attach, which has everything. */
static struct map *
take_answer (struct control *c, json_t *reply)
{
  const char *session = json_string_value (json_object_get (reply, "session"));
  const json_t *leases;
  char why[512];
  struct map *m;

  if (session == NULL || session[0] == '\0' ||
      strlen (session) > NAME_BYTES_MAX ||
      session[strspn (session, "0123456789abcdef")]) {
    nbdkit_error ("array %s: weftd's answer has no usable session; are weftd "
                  "and this nbdkit of the same version?",
                  params.array);
    return NULL;
  }
  strcpy (c->session, session);
  c->answer = json_incref (reply);
  c->generation = json_integer_value (json_object_get (reply, "generation"));
  leases = json_object_get (reply, "leases");
  c->order = json_integer_value (json_object_get (leases, "order"));
  c->held = json_is_true (json_object_get (reply, "hold"));
  c->declared = !json_is_true (json_object_get (leases, "declare"));
  m = map_from_json (json_object_get (reply, "map"), why, sizeof why);
  if (m && m->epoch == 0) {
    snprintf (why, sizeof why, "it has no epoch");
    map_free (m);
    m = NULL;
  }
  if (m == NULL) {
    nbdkit_error ("array %s: weftd's map is not usable: %s", params.array, why);
    return NULL;
  }
  loss_take (reply);
  guests_take (reply);
  return m;
}

/* Pass the answer to the engine. */
static void
read_answer (int status, const json_t *reply, struct host_attach_answer *a)
{
  const json_t *holder = json_object_get (reply, "holder");
  const char *session = json_string_value (json_object_get (holder, "session"));
  const char *process = json_string_value (json_object_get (holder, "process"));
  const char *code = json_string_value (json_object_get (reply, "code"));
  json_int_t ms = json_integer_value (
    json_object_get (reply, "retry_after_ms"));

  *a = (struct host_attach_answer) {
    .status = status,
    .standby = status == 409 && code && strcmp (code, "standby") == 0,
    .retry_after_ms = ms > 0 ? ms : 0,
    .holder = session  ? session
              : holder ? ""
                       : NULL,
    .holder_heard_ms = json_integer_value (
      json_object_get (holder, "last_heard_ms")),
    .holder_ended = session && process && process_has_ended (process),
  };
}

/* Log the reason to wait: once; a process that stands by logs it again when the
 * reason changes.
 */
static void
say_waiting (char *said, size_t size, const char *why)
{
  if (said[0] && (!params.serves || strncmp (said, why, size - 1) == 0))
    return;
  snprintf (said, size, "%s", why);
  if (params.serves)
    fprintf (stderr, "nbdkit: weft: %s\n", why);
  else
    fprintf (stderr, "nbdkit: weft: %s; trying again for up to %u s\n", why,
             HOST_ATTACH_WAIT_MS / 1000);
}

struct map *
control_attach_session (struct control *c)
{
  struct host_attach attach = { .service = params.serves };
  struct host_attach_answer answer;
  enum host_attach_next next;
  json_t *body, *reply = NULL;
  struct map *m = NULL;
  char path[128], said[512] = "";
  const char *field;
  unsigned wait_ms;
  int status;

  body = json_pack ("{s:s, s:s, s:i, s:s, s:s?}", "instance", c->instance,
                    "node", params.node, "pid", (int) getpid (), "mode",
                    params.serves      ? "service"
                    : params.shared    ? "shared"
                    : options.readonly ? "ro"
                                       : "rw",
                    "uri", params.uri);
  if (body == NULL) {
    nbdkit_error ("array %s: can't make the request; node= and uri= must be "
                  "UTF-8",
                  params.array);
    return NULL;
  }
  if (params.shared && !params.leases) {
    json_object_set_new (
      body, "part",
      json_pack (
        "{s:I, s:o}", "offset", (json_int_t) params.part_offset, "length",
        params.part_length ? json_integer ((json_int_t) params.part_length)
                           : json_null ()));
    json_object_set_new (body, "pinned", json_true ());
  }
  if (params.takeover)
    json_object_set_new (body, "takeover", json_true ());
  json_object_set_new (body, "pools", json_true ());
  json_object_set_new (body, "scans", json_true ());
  if (exposure_listens ())
    json_object_set_new (body, "exports", json_true ());
  snprintf (path, sizeof path, "/api/v1/arrays/%s/sessions", params.array);
  for (;;) {
    c->heard_ms = clock_ms ();
    status = admin_call (c->admin, "POST", path, body, &reply,
                         ATTACH_TIMEOUT_MS);
    read_answer (status, reply, &answer);
    next = host_attach_answered (&attach, &answer, &wait_ms);
    if (next != HOST_ATTACH_AGAIN)
      break;
    if (attach.ended[0])
      json_object_set_new (body, "ended", json_string (attach.ended));
    if (wait_ms > 0)
      say_waiting (said, sizeof said, admin_error (c->admin));
    usleep (wait_ms * 1000);
    json_decref (reply);
    reply = NULL;
  }
  field = json_string_value (json_object_get (reply, "field"));
  if (next == HOST_ATTACHED) {
    revoked_heard (c->admin);
    m = take_answer (c, reply);
  }
  else if (params.leases && status == 422 && field &&
           strcmp (field, "part") == 0) /* it wants one */
    nbdkit_error ("array %s: weftd grants no leases: it is of an older Weft; "
                  "upgrade it, or give part=, too",
                  params.array);
  else
    nbdkit_error ("array %s: %s", params.array, admin_error (c->admin));
  json_decref (reply);
  json_decref (body);
  return m;
}

/* On a client of its own: the other ones are cancelled for good. */
void
control_attach_detach (struct control *c)
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
