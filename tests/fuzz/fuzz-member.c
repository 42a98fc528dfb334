/* fuzz-member.c: a whole member, but for nbdkit: weftd's answers to its heartbeats, the
 * names of exports, and the requests by its doors, on a disk in memory that it is
 * started from again and again.  The engine's invariants hold after each of them, and
 * what it wrote on the disk can always be read again.
 *
 * The input: actions, each a byte and what belongs to it (`act` below).
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

/* Only this thread makes things happen that others wait for: a wait would never end. */
#include <pthread.h>
#define pthread_cond_wait(condition, lock) abort ()
#include "plugin/member-role.c"
#undef pthread_cond_wait

#define DATA_BYTES MiB (12) /* three extents */
#define DOORS_MAX 6
#define REQUEST_MAX 20000

struct params params;

static int disk_fd = -1;
static char disk_path[64];
static uint8_t key[KEY_BYTES]; /* as weftd knows it */
static struct superblock told;
static void *served;      /* by the member role, as nbdkit passes it on */
static const char *asked; /* the export's name */
static void *open_doors[DOORS_MAX];

/* ---- nbdkit, as far as a member calls it. ---- */

void
nbdkit_error (const char *fs, ...)
{
  char text[4096];
  va_list ap;

  va_start (ap, fs);
  vsnprintf (text, sizeof text, fs, ap);
  va_end (ap);
}

void
nbdkit_set_error (int error)
{
  assert (error > 0);
}

int
nbdkit_nanosleep (unsigned sec, unsigned nsec)
{
  return 0;
}

const char *
nbdkit_export_name (void)
{
  return asked;
}

int
nbdkit_add_extent (struct nbdkit_extents *extents, uint64_t offset,
                   uint64_t length, uint32_t type)
{
  return 0;
}

/* ---- In place of the C library's: a start opens the disk 34 times, by /proc, which
 * took most of an execution.
 */

int
open (const char *path, int flags, ...)
{
  int fd;

  assert (sscanf (path, "/proc/self/fd/%d", &fd) == 1);
  return fcntl (fd, F_DUPFD_CLOEXEC, 0);
}

/* ---- The parts of the role that have threads of their own. ---- */

int
hangup_start (bool member)
{
  return 0;
}

void
hangup_stop (void)
{
}

int
member_pulse_start (void)
{
  return 0;
}

void
member_pulse_stop (void)
{
}

uint64_t
member_pulse_stuck_ms (void)
{
  return 0;
}

/* Its clients show no certificate. */
const char *
tls_client (void)
{
  return NULL;
}

const char *
tls_client_process (void)
{
  return "";
}

const char *
tls_server_process (void)
{
  return "";
}

/* Nothing connects to the sources of a rebuild here. */
bool
exposure_uri_plain (const char *uri)
{
  return false;
}

bool
hangup_ending (void)
{
  return false;
}

int
member_control_register (void)
{
  return 0;
}

int
member_control_start (void)
{
  return 0;
}

void
member_control_stop (void)
{
}

/* ---- Life ---- */

static void
begin (void)
{
  struct superblock sb = { .disk = { 2 },
                           .data_offset = HEADER_BYTES,
                           .data_bytes = DATA_BYTES };
  uint8_t header[INTENT_BLOCKS_OFFSET + INTENT_BLOCK_BYTES] = { 0 };
  struct intents map;

  if (disk_fd == -1) {
    disk_fd = memfd_create ("disk", MFD_CLOEXEC);
    snprintf (disk_path, sizeof disk_path, "/proc/self/fd/%d", disk_fd);
    params.uri = "nbd://here";
  }
  params.disk = disk_path;
  assert (ftruncate (disk_fd, 0) == 0 &&
          ftruncate (disk_fd, HEADER_BYTES + DATA_BYTES) == 0);
  superblock_upgrade (&sb);
  for (unsigned i = 0; i < 2; i++) {
    sb.sequence++;
    superblock_encode (&sb, header + sb.sequence % 2 * SLOT_BYTES);
  }
  assert (intents_init (&map, intents_extents (DATA_BYTES)) == 0);
  intents_encode (&map, 0, header + INTENT_BLOCKS_OFFSET);
  intents_free (&map);
  assert (pwrite (disk_fd, header, sizeof header, 0) == sizeof header);
}

static void
start (void)
{
  served = member_role_get_ready ();
  assert (served);
  told = *member_confirmed (server.member);
}

static void
stop (bool gently)
{
  for (unsigned i = 0; i < DOORS_MAX; i++) {
    if (open_doors[i])
      member_role_close (open_doors[i]);
    open_doors[i] = NULL;
  }
  if (gently)
    write_all (true);
  forget ();
}

/* ---- Actions ---- */

/* An answer of weftd's, as JSON: member-control.c. */
static void
answer (struct fuzz *f)
{
  struct member_desire d = { .assigned = false };
  struct puller_order *order = NULL;
  uint8_t new_key[KEY_BYTES];
  char why[512];
  size_t n;
  char *text = fuzz_text (f, &n);
  json_t *json = json_loadb (text, n, 0, NULL);

  memcpy (new_key, key, sizeof key);
  if (json && member_answer_read (json, &told, &d, new_key, &order) == NULL &&
      member_desire (server.member, &d, why, sizeof why) &&
      !json_is_true (json_object_get (json, "assignment"))) {
    memcpy (key, new_key, sizeof key);
    member_set_key (server.member, key);
  }
  puller_order_free (order);
  json_decref (json);
  free (text);
  write_all (false);
  told = *member_confirmed (server.member);
}

/* As weftd makes it for this disk, or anything. */
static char *
export_name (struct fuzz *f)
{
  static const char *const names[] = { "data", "batch", "intents" };
  unsigned door = fuzz_below (f, 4), rights;
  struct token t = { .joins = false };
  char text[TOKEN_BYTES_MAX + 1], *name;

  if (door == 3)
    return fuzz_text (f, NULL);
  t.session = fuzz_number (f, 1);
  rights = fuzz_number (f, 1);
  t.writable = rights & 1;
  t.joins = rights >> 1 & 1;
  t.place = rights >> 2 & 3;
  t.epoch = fuzz_number (f, 1);
  memcpy (t.array, told.array, 16);
  memcpy (t.member, told.disk, 16);
  token_mint (&t, key, text);
  assert (asprintf (&name, "%s/%s", names[door], text) > 0);
  return name;
}

static void
open_door (struct fuzz *f)
{
  void **door = &open_doors[fuzz_below (f, DOORS_MAX)];
  char *name = export_name (f);

  if (*door)
    member_role_close (*door);
  asked = name;
  *door = member_role_open (served, 0);
  free (name);
}

/* Records of any kind, and their bytes: or bytes alone. */
static uint32_t
batch (struct fuzz *f, uint8_t *buf)
{
  struct batch_record records[8];
  unsigned count = fuzz_below (f, 8), bytes;

  for (unsigned i = 0; i < count; i++) {
    records[i] = (struct batch_record) {
      .kind = BATCH_WRITE + fuzz_below (f, BATCH_BAD),
      .offset = fuzz_number (f, 3) * 512,
      .length = fuzz_number (f, 3),
      .payload = NULL,
    };
    if (records[i].kind == BATCH_WRITE)
      records[i].length = 1 + records[i].length % 1000;
    if (records[i].kind == BATCH_ROUND)
      records[i].offset = 0;
  }
  bytes = (unsigned) batch_bytes (records, count);
  batch_encode (records, count, buf);
  return bytes;
}

static void
request (struct fuzz *f, unsigned what)
{
  struct door *door = open_doors[fuzz_below (f, DOORS_MAX)];
  static uint8_t buf[REQUEST_MAX];
  uint64_t size, offset = fuzz_number (f, 4);
  uint32_t count = 1 + (uint32_t) fuzz_number (f, 2) % (REQUEST_MAX - 1);
  uint32_t flags = fuzz_number (f, 1) &
                   (NBDKIT_FLAG_FUA | NBDKIT_FLAG_MAY_TRIM);

  if (door == NULL)
    return;
  memset (buf, 'w', sizeof buf);
  if (what == 1 && door->kind == DOOR_BATCH) {
    offset = fuzz_number (f, 1) == 255;
    count = batch (f, buf);
  }
  /* nbdkit holds requests to the size of the export. */
  size = (uint64_t) member_role_get_size (door);
  if (offset > size || count > size - offset)
    offset %= size,
      count = (uint32_t) (count > size - offset ? size - offset : count);
  if (what != 0 && what != 4 && what != 5 && !member_role_can_write (door))
    return;
  switch (what) {
  case 0:
    member_role_pread (door, buf, count, offset, 0);
    break;
  case 1:
    member_role_pwrite (door, buf, count, offset, flags);
    break;
  case 2:
    member_role_zero (door, count, offset, flags);
    break;
  case 3:
    member_role_trim (door, count, offset, flags);
    break;
  case 4:
    member_role_flush (door, 0);
    break;
  case 5:
    member_role_extents (door, count, offset, 0, NULL);
    break;
  }
}

static void
act (struct fuzz *f)
{
  unsigned what = fuzz_below (f, 10);

  switch (what) {
  case 6:
    answer (f);
    break;
  case 7:
    open_door (f);
    break;
  case 8: /* and the power may go */
    stop (fuzz_number (f, 1) & 1);
    start ();
    break;
  case 9:
    write_all (true);
    break;
  default:
    request (f, what);
  }
  member_check (server.member);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz f = { data, size };

  memset (key, 0, sizeof key);
  begin ();
  start ();
  for (unsigned i = 0; i < 64 && f.left > 0; i++)
    act (&f);
  stop (true);
  /* The written bytes are a disk. */
  start ();
  stop (false);
  return 0;
}

/* ---- Seeds ---- */

static void
put_answer (const char *states, unsigned epoch, const char *join)
{
  char text[2048];

  snprintf (
    text, sizeof text,
    "{\"generation\": 1, \"cluster\": "
    "\"01000000-0000-0000-0000-000000000000\", "
    "\"min_epoch\": %u, \"key\": \"%064d\", \"assignment\": {\"array\": "
    "\"03000000-0000-0000-0000-000000000000\", \"layout\": \"raid-x\", \"n\": "
    "3, "
    "\"groups\": 1, \"position\": 1, \"unit\": 4096, \"epoch\": %u, "
    "\"states\": "
    "[%s], \"member_bytes\": 8388608, \"dup\": \"async-client\"}%s}",
    epoch, 0, epoch, states, join);
  FUZZ_PUT (6);
  fuzz_put (text, strlen (text) + 1);
}

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  static const char whole[] = "\"in-sync\", \"in-sync\", \"in-sync\"";

  put_answer (whole, 1, "");
  FUZZ_PUT (7, 0, 0, 9, 1, 1);               /* data, rw */
  FUZZ_PUT (1, 0, 0, 16, 0, 0, 0, 2, 0);     /* write */
  FUZZ_PUT (0, 0, 0, 16, 0, 0, 0, 2);        /* read */
  FUZZ_PUT (0, 7, 1, 1, 9, 1, 1);            /* batch */
  FUZZ_PUT (1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 3, /* of 3 */
            0, 8, 0, 0, 16, 0, 0, 5, 0, 0, 0, 7, 0, 0, 6, 16, 0, 0, 0, 16, 0);
  FUZZ_PUT (4, 0, 0, 0, 0, 0, 0, 0, 0);
  FUZZ_PUT (8, 0);
  fuzz_put_end (seed);

  put_answer ("\"in-sync\", \"joining\", \"in-sync\"", 2,
              ", \"join\": {\"epoch\": 2, \"rate\": 0, \"paused\": false, "
              "\"sources\": [{\"member\": 0, \"uri\": \"nbd://a\", \"tokens\": "
              "{\"data\": \"d\", \"intents\": \"i\"}}]}");
  FUZZ_PUT (7, 0, 0, 9, 1, 2);
  FUZZ_PUT (1, 0, 0, 16, 0, 0, 0, 2, 1);
  FUZZ_PUT (3, 0, 0, 0, 0, 0, 0, 2, 0);
  put_answer (whole, 3, "");
  FUZZ_PUT (7, 0, 2, 9, 0, 3);
  FUZZ_PUT (0, 0, 0, 0, 0, 0, 0, 0);
  FUZZ_PUT (8, 1);
  fuzz_put_end (seed);
}
