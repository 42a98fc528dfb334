/* test-guests.c: which clients on other hosts are admitted, and for how long.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "base/bounds.h"
#include "guests.h"
#include "lobby.h"
#include "role.h"
#include "nbdkit-tls.h"

/* ---- What is around it. ---- */

struct params params = { .array = "a" };

static const char *certificate;  /* that the client shows */
static const char *process = ""; /* for which it is */
static char said[1000];
static int error;
static unsigned hung_up; /* how many */

void
nbdkit_error (const char *format, ...)
{
  va_list args;

  va_start (args, format);
  vsnprintf (said, sizeof said, format, args);
  va_end (args);
}

void
nbdkit_set_error (int number)
{
  error = number;
}

const char *
tls_client (void)
{
  return certificate;
}

const char *
tls_client_process (void)
{
  return process;
}

struct caller *
lobby_caller (void)
{
  return (struct caller *) &hung_up;
}

void
lobby_hang_up (const struct caller *c)
{
  assert (c == (struct caller *) &hung_up);
  hung_up++;
}

/* ---- Scenes. ---- */

/* weftd's answer, in JSON with ' for ". */
static void
weftd_says (const char *text)
{
  char *json = strdup (text);
  json_t *reply;

  assert (json);
  for (char *p = json; *p; p++)
    if (*p == '\'')
      *p = '"';
  reply = json_loads (json, 0, NULL);
  assert (reply);
  guests_take (reply);
  json_decref (reply);
  free (json);
}

static bool
comes (struct guest *g, const char *node)
{
  memset (g, 0, sizeof *g);
  error = 0;
  if (guests_open (g, node) == 0)
    return true;
  assert (error == EPERM && strstr (said, node));
  return false;
}

static bool
works (struct guest *g)
{
  bool fine = guests_begin (g);

  if (fine)
    guests_end (g);
  return fine;
}

/* First of all. */
static void
test_untold (void)
{
  struct guest g;

  assert (!comes (&g, "n1") && strstr (said, "upgrade"));
  /* As an earlier weftd answers, and what is no list. */
  weftd_says ("{'epoch': 3}");
  weftd_says ("{'fences': '5', 'fenced': [], 'allow': null}");
  weftd_says ("{'fences': 5, 'fenced': [{'below': 5}], 'allow': null}");
  weftd_says ("{'fences': 5, 'allow': null}");
  assert (!comes (&g, "n1") && guests_fences () == 0);
}

static void
test_certificate (void)
{
  assert (guests_node () == NULL && error == EPERM);
  certificate = "n1";
  assert (strcmp (guests_node (), "n1") == 0);
}

static void
test_process (void)
{
  static const char *const refused[] = {
    "disk:00000000-0000-4000-8000-000000000001",
    "array:b",
    "array:",
    "array:aa",
    "a",
    "?"
  };

  assert (guests_process () == 0);
  process = "array:a";
  assert (guests_process () == 0);
  params.array = NULL; /* from a static map */
  assert (guests_process () == -1);
  params.array = "a";
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    process = refused[i];
    error = 0;
    assert (guests_process () == -1 && error == EPERM &&
            strstr (said, refused[i]));
  }
}

static void
test_list (void)
{
  struct guest writer, reader, stranger;

  weftd_says (
    "{'fences': 10, 'fenced': [], 'allow': {'n1': 'rw', 'n2': 'ro'}}");
  assert (comes (&writer, "n1") && !writer.readonly);
  assert (comes (&reader, "n2") && reader.readonly);
  assert (!comes (&stranger, "n3") &&
          strstr (said, "weftctl array allow a n3"));
  assert (!comes (&stranger, "n"));
  assert (works (&writer) && works (&reader) && hung_up == 0);

  /* An older answer that comes late changes nothing. */
  weftd_says ("{'fences': 9, 'fenced': [], 'allow': {}}");
  assert (works (&writer) && works (&reader));
  /* A reader may still read, and gains nothing from a right to write. */
  weftd_says (
    "{'fences': 11, 'fenced': [], 'allow': {'n1': 'ro', 'n2': 'rw'}}");
  assert (!works (&writer) && works (&reader) && reader.readonly);
  assert (hung_up == 1 && guests_refused (&writer));
  guests_leave (&writer);
  assert (comes (&writer, "n1") && writer.readonly);

  weftd_says ("{'fences': 12, 'fenced': [], 'allow': {'n1': 'rw'}}");
  assert (works (&writer) && !works (&reader) && hung_up == 2);
  guests_leave (&reader);
  assert (!comes (&reader, "n2"));

  /* A mode of a later weftd is no right to write. */
  weftd_says ("{'fences': 13, 'fenced': [], 'allow': {'n1': 'rw', 'n2': 'x'}}");
  assert (comes (&reader, "n2") && reader.readonly);
  guests_leave (&reader);
  /* All may. */
  weftd_says ("{'fences': 14, 'fenced': [], 'allow': null}");
  assert (comes (&stranger, "n3") && !stranger.readonly && works (&writer));
  guests_leave (&stranger);
  guests_leave (&writer);
}

static void
test_fence (void)
{
  struct guest g, old = { .node = "n1", .fences = 14 };

  hung_up = 0;
  assert (comes (&g, "n1") && guests_fences () == 14);
  guests_enter (&old);
  assert (guests_begin (&g));
  weftd_says ("{'fences': 15, 'fenced': [{'node': 'n1', 'below': 99}], "
              "'allow': null}");
  /* It is confirmed when nothing runs. */
  assert (hung_up == 2 && guests_fences () == 14);
  assert (!works (&g) && !works (&old) && guests_fences () == 14);
  guests_end (&g);
  assert (guests_fences () == 15);
  guests_leave (&g);
  guests_leave (&old);
  assert (!comes (&g, "n1") && strstr (said, "fenced"));
  assert (comes (&g, "n2") && works (&g));
  guests_leave (&g);

  /* The fence is over: new processes are admitted, earlier ones are not. */
  weftd_says ("{'fences': 16, 'fenced': [{'node': 'n1', 'below': 16}], "
              "'allow': null}");
  assert (comes (&g, "n1") && works (&g));
  guests_enter (&old);
  assert (guests_refused (&old) && !guests_refused (&g));
  guests_leave (&old);
  guests_leave (&g);
}

/* All numbers that a client of a service may send. */
static void
test_numbers (void)
{
  static const uint64_t numbers[] = {
    0,
    1,
    15,
    16,
    17,
    18,
    19,
    99,
    EPOCH_MAX - 1,
    EPOCH_MAX,
    EPOCH_MAX + 1,
    INT64_MAX,
    (uint64_t) INT64_MAX + 1,
    UINT64_MAX - 1,
    UINT64_MAX,
  };

  weftd_says ("{'fences': 18, 'fenced': [{'node': 'n1', "
              "'below': 1152921504606846976}, {'node': 'n2', 'below': 16}], "
              "'allow': null}");
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    struct guest fenced = { .node = "n1", .fences = numbers[i] };
    struct guest former = { .node = "n2", .fences = numbers[i] };
    struct guest other = { .node = "n3", .fences = numbers[i] };
    bool unknown = numbers[i] > 18;

    assert (guests_refused (&fenced) == EPERM);
    assert (guests_refused (&former) == (numbers[i] < 16 ? EPERM
                                         : unknown       ? EAGAIN
                                                         : 0));
    assert (guests_refused (&other) == (unknown ? EAGAIN : 0));
  }
  /* An honest client may have heard of the newest one before us. */
  weftd_says ("{'fences': 19, 'fenced': [], 'allow': null}");
  assert (guests_refused (&(struct guest) { .node = "n2", .fences = 19 }) == 0);
}

int
main (void)
{
  test_untold ();
  test_certificate ();
  test_process ();
  test_list ();
  test_fence ();
  test_numbers ();
  return 0;
}
