/* weft.c: the plugin's entry: parameters, the choice of the role, and passing
 * nbdkit's calls on to it (role.h). Calls that do not differ between the roles
 * are answered here.
 */

#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <strings.h>
#include <unistd.h>

#include <libnbd.h>

#include "common/admin.h"
#include "common/notify.h"
#include "base/bounds.h"
#include "budget.h"
#include "exposure.h"
#include "lobby.h"
#include "base/name.h"
#include "nbdkit-options.h"
#include "nbdkit-replies.h"
#include "revoked.h"
#include "role.h"
#include "shortage.h"
#include "nbdkit-tls.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

#define IO_TIMEOUT_MS_MIN 100
#define IO_TIMEOUT_MS_MAX 3600000

/* A block of so many bytes is mapped on its own. */
#define MAPPED_BYTES MiB (4)

static const struct role *role;
/* The result of the role's get_ready.  nbdkit calls get_ready, after_fork, cleanup and open
 * without a context, so it is kept here; all other functions get it, or a handle, from their
 * caller.
 */
static void *made;
static bool part_given;
static bool memory_bounded; /* for requests that come by TLS (budget.h) */

static void
weft_load (void)
{
  /* One thread of nbdkit's frees the memory of another.  With an arena for each
   * of them glibc keeps several times the memory in use.
   */
  mallopt (M_ARENA_MAX, 1);
  /* nbdkit's workers each enlarge a buffer for the largest request so far.  A
   * mapped block of glibc begins 16 bytes into a page, and from there AMD's
   * processors copy at 0.6 of their speed, so buffers of common requests stay
   * in the heap.  Larger ones do not: in the heap each leaves a hole when it
   * grows, a mapping grows in place.  glibc would move this limit by itself.
   */
  mallopt (M_MMAP_THRESHOLD, MAPPED_BYTES);
  mallopt (M_TRIM_THRESHOLD, MiB (1));
  replies_guard ();
  lobby_begin ();
  memory_bounded = budget_begin ();
  memory_bounded = tls_begin () && memory_bounded;
  admin_global_init ();
}

static void
weft_unload (void)
{
  tls_end ();
  free (params.disk);
  free (params.uuid);
  free (params.array);
  free (params.map);
  free (params.service);
  free (params.client);
  free (params.admin);
  free (params.uri);
  free (params.node);
  free (params.tls);
}

static void
weft_dump_plugin (void)
{
  struct nbd_handle *nbd = nbd_create ();

  printf ("weft_roles=member,array\n");
  printf ("weft_libnbd=%s\n", nbd ? nbd_get_version (nbd) : "unknown");
  nbd_close (nbd);
}

static int
set_unsigned (unsigned *to, const char *key, const char *value, unsigned min,
              unsigned max)
{
  if (nbdkit_parse_unsigned (key, value, to) == -1)
    return -1;
  if (*to < min || *to > max) {
    nbdkit_error ("%s=%s: give milliseconds from %u to %u", key, value, min,
                  max);
    return -1;
  }
  return 0;
}

/* OFFSET+LENGTH, or OFFSET+. */
static int
set_part (const char *value)
{
  const char *plus = strchr (value, '+');
  char *first = plus ? strndup (value, plus - value) : NULL;
  int64_t offset = -1, length = -1;

  if (part_given)
    nbdkit_error ("part= is given twice");
  else if (plus == NULL)
    nbdkit_error ("part=%s: write it as OFFSET+LENGTH, or as OFFSET+ for all "
                  "up to the array's end",
                  value);
  else if (first == NULL)
    nbdkit_error ("strndup: %m");
  else
    offset = nbdkit_parse_size (first);
  free (first);
  if (offset == -1)
    return -1;
  length = plus[1] ? nbdkit_parse_size (plus + 1) : 0;
  if (length == -1)
    return -1;
  if (length == 0 && plus[1]) {
    nbdkit_error ("part=%s: nothing is in it; give a length above 0, or none "
                  "for all up to the array's end",
                  value);
    return -1;
  }
  params.part_offset = offset;
  params.part_length = length;
  part_given = true;
  return 0;
}

static int
weft_config (const char *key, const char *value)
{
  static const struct {
    const char *key;
    char **to;
    enum { PATH, NAME, TEXT, UUID } kind;
  } strings[] = {
    { "disk", &params.disk, PATH },     { "map", &params.map, PATH },
    { "tls", &params.tls, PATH },       { "array", &params.array, NAME },
    { "node", &params.node, NAME },     { "admin", &params.admin, TEXT },
    { "uri", &params.uri, TEXT },       { "service", &params.service, NAME },
    { "client", &params.client, PATH }, { "uuid", &params.uuid, UUID },
  };
  int64_t n;

  for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
    char **to = strings[i].to;

    if (strcmp (key, strings[i].key) != 0)
      continue;
    if (*to)
      nbdkit_error ("%s= is given twice", key);
    else if (strings[i].kind == PATH)
      /* nbdkit changes its directory when it goes into the background. */
      return (*to = nbdkit_absolute_path (value)) ? 0 : -1;
    else if (strings[i].kind == NAME && !name_valid (value))
      nbdkit_error ("%s=%s: not a name: use 1 to %d of a-z, 0-9 and -, not "
                    "beginning with -",
                    key, value, NAME_BYTES_MAX);
    else if (strings[i].kind == TEXT && value[0] == '\0')
      nbdkit_error ("%s= is empty", key);
    else if ((*to = strdup (value)) == NULL)
      nbdkit_error ("strdup: %m");
    else
      return 0;
    return -1;
  }
  if (strcmp (key, "image-buffer") == 0) {
    n = nbdkit_parse_size (value);
    if (n == -1)
      return -1;
    if ((uint64_t) n < IMAGE_BUFFER_BYTES_MIN ||
        (uint64_t) n > IMAGE_BUFFER_BYTES_MAX) {
      nbdkit_error ("image-buffer=%s: give a size from 1M to 4G", value);
      return -1;
    }
    params.image_buffer_bytes = n;
    return 0;
  }
  if (strcmp (key, "image-age") == 0)
    return set_unsigned (&params.image_age_ms, key, value, 1, IMAGE_AGE_MS_MAX);
  if (strcmp (key, "io-timeout") == 0)
    return set_unsigned (&params.io_timeout_ms, key, value, IO_TIMEOUT_MS_MIN,
                         IO_TIMEOUT_MS_MAX);
  if (strcmp (key, "full-wait") == 0)
    return set_unsigned (&params.full_wait_ms, key, value, 1,
                         VOLUME_FULL_WAIT_MS_MAX);
  if (strcmp (key, "takeover") == 0) {
    n = nbdkit_parse_bool (value);
    params.takeover = n == 1;
    return n == -1 ? -1 : 0;
  }
  if (strcmp (key, "mode") == 0) {
    params.shared = strcmp (value, "shared") == 0;
    if (params.shared)
      return 0;
    nbdkit_error ("mode=%s: shared is the only mode that is asked for; leave "
                  "mode= out to write the array alone, and give -r to read it",
                  value);
    return -1;
  }
  if (strcmp (key, "part") == 0)
    return set_part (value);
  nbdkit_error ("unknown parameter '%s'; see nbdkit-weft-plugin(1)", key);
  return -1;
}

/* The hostname up to its first dot, made into a name. */
static char *
default_node (void)
{
  char text[NAME_BYTES_MAX + 1] = "";
  size_t i;

  if (gethostname (text, sizeof text - 1) == -1)
    return strdup ("localhost");
  text[strcspn (text, ".")] = '\0';
  for (i = 0; text[i]; i++) {
    text[i] = tolower ((unsigned char) text[i]);
    if (!isalnum ((unsigned char) text[i]))
      text[i] = '-';
  }
  return strdup (name_valid (text) ? text : "localhost");
}

/* Nothing secret leaves this host in the clear: neither the tokens and keys that
 * weftd sends, nor data.
 */
static int
check_tls (void)
{
  char *ca;
  int r;

  if (params.tls == NULL && getenv ("WEFT_TLS") &&
      (params.tls = nbdkit_absolute_path (getenv ("WEFT_TLS"))) == NULL)
    return -1;
  if (params.admin && exposure_uri_plain (params.admin)) {
    nbdkit_error ("admin=%s is on another host and has no TLS: give its "
                  "https:// address, and tls=FOLDER",
                  params.admin);
    return -1;
  }
  if (params.uri && exposure_uri_plain (params.uri)) {
    nbdkit_error ("uri=%s is for other hosts and has no TLS: make it nbds://, "
                  "and start nbdkit with --tls=require",
                  params.uri);
    return -1;
  }
  if (params.tls == NULL) {
    if (params.admin == NULL || strncasecmp (params.admin, "https:", 6) != 0)
      return 0;
    nbdkit_error ("admin=%s needs tls=FOLDER: the folder of this host's "
                  "certificate, which weft-enroll makes",
                  params.admin);
    return -1;
  }
  if (asprintf (&ca, "%s/ca-cert.pem", params.tls) == -1) {
    nbdkit_error ("asprintf: %m");
    return -1;
  }
  r = access (ca, R_OK);
  if (r == -1)
    nbdkit_error ("tls=%s: %s: %m; is it the folder that weft-enroll made?",
                  params.tls, ca);
  free (ca);
  return r;
}

/* service= says beside array= whether this process serves the array to others; alone
 * it is the array whose service is used.
 */
static int
config_service (void)
{
  int yes;

  if (!params.service || !params.array)
    return 0;
  yes = nbdkit_parse_bool (params.service);
  if (yes == -1)
    return -1;
  params.serves = yes;
  free (params.service);
  params.service = NULL;
  if (!yes)
    return 0;
  if (params.takeover) {
    nbdkit_error ("takeover= cannot be combined with service=yes: to move the "
                  "service, use weftctl array service %s --move",
                  params.array);
    return -1;
  }
  if (!params.uri) {
    nbdkit_error ("service=yes needs uri=: where clients on other hosts reach "
                  "this process");
    return -1;
  }
  return 0;
}

/* Check the options of mode=shared, which excludes other modes. */
static int
check_shared (void)
{
  params.leases = params.shared && !part_given;
  if (part_given && !params.shared)
    nbdkit_error ("part= has no mode=shared: give both, to write a part of an "
                  "array while others write the rest");
  else if (params.shared && !params.array)
    nbdkit_error ("mode=shared belongs to array=: only an array that weftd "
                  "knows has several that write");
  else if (params.shared && params.serves)
    nbdkit_error (
      "mode=shared cannot be combined with service=yes: the serving node "
      "writes all of the array; leave one of them out");
  else
    return 0;
  return -1;
}

static int
weft_config_complete (void)
{
  if (config_service () == -1)
    return -1;
  if (!!params.disk + !!params.array + !!params.map + !!params.service != 1) {
    nbdkit_error (
      "give exactly one of disk=PATH (serve a disk as a member), "
      "array=NAME (an array that weftd knows), service=NAME (the "
      "same by way of its service) and map=FILE (an array described "
      "by a file)");
    return -1;
  }
  if (params.map && params.admin) {
    nbdkit_error ("admin= cannot be combined with map=: an array of a static "
                  "map has no weftd; leave one of them out");
    return -1;
  }
  if (!params.map && !params.admin) {
    nbdkit_error ("admin= is missing: give the address of weftd, such as "
                  "admin=http://127.0.0.1:7380");
    return -1;
  }
  if (params.disk && (params.image_buffer_bytes || params.image_age_ms)) {
    nbdkit_error (
      "%s= cannot be combined with disk=: it is an option of an array",
      params.image_buffer_bytes ? "image-buffer" : "image-age");
    return -1;
  }
  if (params.uuid && !params.disk) {
    nbdkit_error ("uuid= belongs to disk=: it says which disk that is");
    return -1;
  }
  /* Beside array=, too: one unit has both, and there it means nothing. */
  if (params.client && !params.service && !params.array) {
    nbdkit_error ("client= belongs to service=: it is the file of a client's "
                  "identity");
    return -1;
  }
  if (params.takeover && !params.array) {
    nbdkit_error ("takeover= belongs to array=: only an array that weftd knows "
                  "has a holder");
    return -1;
  }
  if (check_shared () == -1 || check_tls () == -1)
    return -1;
  if (params.node == NULL) {
    params.node = default_node ();
    if (params.node == NULL) {
      nbdkit_error ("strdup: %m");
      return -1;
    }
  }
  if (params.admin && getenv ("WEFT_CONF"))
    admin_follow (getenv ("WEFT_CONF"), params.admin);
  if (params.image_buffer_bytes == 0)
    params.image_buffer_bytes = IMAGE_BUFFER_BYTES_DEFAULT;
  if (params.image_age_ms == 0)
    params.image_age_ms = IMAGE_AGE_MS_DEFAULT;
  if (params.io_timeout_ms == 0)
    params.io_timeout_ms = IO_TIMEOUT_MS_DEFAULT;
  if (params.full_wait_ms == 0)
    params.full_wait_ms = VOLUME_FULL_WAIT_MS_DEFAULT;
  role = params.disk ? &member_role : &array_role;
  return 0;
}

#define weft_config_help                                                       \
  "disk=<PATH>             Serve this disk or file as a member.\n"             \
  "uuid=<UUID>             Only if it is this disk (default: any).\n"          \
  "array=<NAME>            Export the array of this name.\n"                   \
  "service=<NAME>          Export the array of this name, which another\n"     \
  "                        process serves to several hosts.\n"                 \
  "service=<BOOL>          Be that process, when it is its turn (array).\n"    \
  "client=<FILE>           Keep there who we are to that process (service).\n" \
  "map=<FILE>              Export the array that this JSON file describes.\n"  \
  "admin=<URL>             Where weftd is (needed with disk= and array=).\n"   \
  "uri=<URI>               NBD URI under which others reach this process.\n"   \
  "node=<NAME>             Name of this host (default: its hostname).\n"       \
  "tls=<FOLDER>            This host's certificate (default: $WEFT_TLS).\n"    \
  "takeover=<BOOL>         Take the array from a host that lives (array).\n"   \
  "mode=<MODE>             shared: write it beside others (array).\n"          \
  "part=<OFFSET>+<LENGTH>  Only this part of it (with mode=shared).\n"         \
  "image-buffer=<SIZE>     Bytes of images held back (array; default 64M).\n"  \
  "image-age=<MS>          Longest time an image is held (array; default "     \
  "200).\n"                                                                    \
  "io-timeout=<MS>         A member silent for so long is lost (default "      \
  "15000).\n"                                                                  \
  "full-wait=<MS>          A write waits so long for space in a pool (array; " \
  "default 60000)."

/* A member's request is carried out by the thread that has received it, and
 * there is one for each connection: nbdkit's threads would hand each request's
 * reception on from one to the next.  A client that wants several requests at
 * once has several connections.
 */
static int
weft_thread_model (void)
{
  return role == &member_role ? NBDKIT_THREAD_MODEL_SERIALIZE_REQUESTS
                              : NBDKIT_THREAD_MODEL_PARALLEL;
}

static int
weft_get_ready (void)
{
  if (options_read () == -1 || exposure_check_start () == -1)
    return -1;
  if (params.serves && options.readonly) {
    nbdkit_error ("-r cannot be combined with service=yes: its clients can ask "
                  "for read-only access themselves");
    return -1;
  }
  if (params.shared && options.readonly) {
    nbdkit_error ("-r cannot be combined with mode=shared: to read, leave "
                  "mode= and part= out");
    return -1;
  }
  shortage_prepare ();
  /* Other members of this host are of the same user, and so are other arrays.  None may
   * read this process's key, or act as this process.
   */
  if (prctl (PR_SET_DUMPABLE, 0, 0, 0, 0) == -1)
    nbdkit_debug ("weft: PR_SET_DUMPABLE: %m: other processes of its user can "
                  "read its memory");
  revoked_begin ();
  if (options.tls_required && !memory_bounded)
    nbdkit_error ("this nbdkit is not as Weft knows it: memory for requests of "
                  "other hosts is not bounded, so they may use up this host's; "
                  "use nbdkit of Debian 12 or 13");
  made = role->get_ready ();
  return made ? 0 : -1;
}

static int
weft_after_fork (void)
{
  int r = role->after_fork (made);

  if (r == 0)
    notify_ready ();
  return r;
}

static void
weft_cleanup (void)
{
  if (made)
    role->cleanup (made);
  made = NULL;
}

/* The doors of a member open by token only, so it lists none. */
static int
weft_list_exports (int readonly, int is_tls, struct nbdkit_exports *exports)
{
  return role->list_exports ? role->list_exports (made, exports) : 0;
}

static const char *
weft_export_description (void *handle)
{
  if (role != &array_role)
    return "door of a Weft member";
  if (params.array || params.service)
    return nbdkit_printf_intern ("Weft array %s",
                                 params.array ? params.array : params.service);
  return "Weft array from a static map";
}

static int
weft_preconnect (int readonly)
{
  struct sockaddr_storage sa;
  socklen_t bytes = exposure_peer (&sa);

  lobby_enter (&sa, bytes);
  return 0;
}

static void *
weft_open (int readonly)
{
  struct sockaddr_storage sa;
  void *handle = NULL;
  uint64_t session = 0;
  bool reads;

  replies_open ();
  exposure_peer (&sa);
  if (exposure_check_client (&sa) == -1 || lobby_leave (tls_client ()) == -1)
    return NULL;
  handle = role->open (made, readonly);
  if (handle) {
    reads = !role->can_write (handle);
    if (role->session)
      session = role->session (handle, &reads);
    if (lobby_settle (session, reads) == 0) {
      tls_opened (lobby_caller ());
      return handle;
    }
    role->close (handle);
  }
  lobby_return ();
  return NULL;
}

static void
weft_close (void *handle)
{
  if (made) /* nbdkit may close connections when all has ended */
    role->close (handle);
  lobby_return ();
}

static int64_t
weft_get_size (void *handle)
{
  return role->get_size (handle);
}

static int
weft_block_size (void *handle, uint32_t *minimum, uint32_t *preferred,
                 uint32_t *maximum)
{
  return role->block_size (handle, minimum, preferred, maximum);
}

static int
weft_can_write (void *handle)
{
  return role->can_write (handle);
}

static int
weft_yes (void *handle)
{
  return 1;
}

static int
weft_no (void *handle)
{
  return 0;
}

static int
weft_can_fua (void *handle)
{
  return NBDKIT_FUA_NATIVE;
}

static int
weft_pread (void *handle, void *buf, uint32_t count, uint64_t offset,
            uint32_t flags)
{
  return role->pread (handle, buf, count, offset, flags);
}

static int
weft_pwrite (void *handle, const void *buf, uint32_t count, uint64_t offset,
             uint32_t flags)
{
  return role->pwrite (handle, buf, count, offset, flags);
}

static int
weft_flush (void *handle, uint32_t flags)
{
  return role->flush (handle, flags);
}

static int
weft_trim (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  return role->trim (handle, count, offset, flags);
}

/* FAST_ZERO is offered and then refused.  nbdkit passes the flag on whether it was
 * offered or not, and 1.32 ends by an assertion where it was not.
 */
static int
weft_zero (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  if (flags & NBDKIT_FLAG_FAST_ZERO) {
    errno = ENOTSUP;
    return -1;
  }
  return role->zero (handle, count, offset, flags);
}

static int
weft_extents (void *handle, uint32_t count, uint64_t offset, uint32_t flags,
              struct nbdkit_extents *extents)
{
  return role->extents (handle, count, offset, flags, extents);
}

static struct nbdkit_plugin plugin = {
  .name = "weft",
  .longname = "Weft: one replicated disk out of the disks of a few hosts",
  .version = PACKAGE_VERSION,
  .load = weft_load,
  .unload = weft_unload,
  .dump_plugin = weft_dump_plugin,
  .config = weft_config,
  .config_complete = weft_config_complete,
  .config_help = weft_config_help,
  .thread_model = weft_thread_model,
  .get_ready = weft_get_ready,
  .after_fork = weft_after_fork,
  .cleanup = weft_cleanup,
  .preconnect = weft_preconnect,
  .list_exports = weft_list_exports,
  .export_description = weft_export_description,
  .open = weft_open,
  .close = weft_close,
  .get_size = weft_get_size,
  .block_size = weft_block_size,
  .can_write = weft_can_write,
  .can_flush = weft_yes,
  .can_trim = weft_yes,
  .can_zero = weft_yes,
  .can_fast_zero = weft_yes,
  .can_extents = weft_yes,
  .can_fua = weft_can_fua,
  .can_multi_conn = weft_yes,
  .is_rotational = weft_no,
  .pread = weft_pread,
  .pwrite = weft_pwrite,
  .flush = weft_flush,
  .trim = weft_trim,
  .zero = weft_zero,
  .extents = weft_extents,
  .errno_is_preserved = 1,
};

NBDKIT_REGISTER_PLUGIN (plugin)
