/* test-origins.c: weftd bounds and counts unknown callers by their address; by the
 * network for IPv6, because a host can have any number of addresses.
 */

#include <config.h>

#include <arpa/inet.h>
#include <poll.h>
#include <sys/resource.h>

#include "server/addresses.h"
#include "server/auth-limit.h"
#include "server/doorman.c"
#include "server/loop.h"
#include "server/routes.h"

/* Of two networks. */
static const char *
ours (unsigned i)
{
  static char text[46];

  snprintf (text, sizeof text, "2001:db8:1:2:%x::%x", i, i);
  return text;
}
#define THEIRS "2001:db8:1:3::1"

static void
test_origin (void)
{
  static const char *const pairs[][2] = {
    { "192.0.2.7", "192.0.2.7" },
    { "::ffff:192.0.2.7", "192.0.2.7" },
    { "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64" },
    { "2001:db8:1:2::", "2001:db8:1:2::/64" },
    { "fe80::1:2%eth0", "fe80::/64" },
    { "::1", "::/64" },
    { "", "" },
  };
  char origin[ADDRESSES_ORIGIN_BYTES];

  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    addresses_origin (pairs[i][0], origin);
    assert (strcmp (origin, pairs[i][1]) == 0);
  }
}

static void
test_loopback (void)
{
  static const char *const here[] = { "127.0.0.1", "127.255.255.255", "::1",
                                      "::ffff:127.0.0.1" };
  static const char *const elsewhere[] = {
    "",
    "127.",
    "127.0.0.1.example",
    "127.example",
    "10.0.0.127",
    "128.0.0.1",
    "localhost",
    "::",
    "::2",
    "::ffff:10.0.0.1",
  };

  for (size_t i = 0; i < sizeof here / sizeof here[0]; i++)
    assert (addresses_is_loopback (here[i]));
  for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
    assert (!addresses_is_loopback (elsewhere[i]));
}

static void
test_quota (void)
{
  struct caller c = { .role = ROLE_NOBODY };

  for (unsigned i = 0; i < QUOTA_STRANGER_CALLS; i++) {
    strcpy (c.address, ours (i));
    assert (quota_begin (&c, QUOTA_CALL, 1));
  }
  strcpy (c.address, ours (99));
  assert (!quota_begin (&c, QUOTA_CALL, 1));
  strcpy (c.address, THEIRS);
  assert (quota_begin (&c, QUOTA_CALL, 1));
  quota_end (&c, QUOTA_CALL, 1);
  strcpy (c.address, ours (99));
  for (unsigned i = 0; i < QUOTA_STRANGER_CALLS; i++)
    quota_end (&c, QUOTA_CALL, 1);
}

/* Of each caller, exactly up to the bound; of all nodes together, beside which users and
 * administrators have their own; and each gets its own back.
 */
static void
test_quota_bytes (void)
{
  const unsigned nodes = QUOTA_NODES_BYTES / QUOTA_NODE_BYTES;
  struct caller n = { .role = ROLE_NODE, .via = VIA_CERTIFICATE };
  struct caller u = { .role = ROLE_VIEWER, .via = VIA_TOKEN, .owner = "u" };
  struct caller a = { .role = ROLE_ADMIN, .via = VIA_TOKEN, .owner = "a" };
  struct caller s = { .role = ROLE_NOBODY, .address = "192.0.2.7" };

  for (unsigned i = 0; i < nodes; i++) {
    snprintf (n.name, sizeof n.name, "n%u", i);
    assert (!quota_begin (&n, QUOTA_BYTES, QUOTA_NODE_BYTES + 1));
    assert (quota_begin (&n, QUOTA_BYTES, QUOTA_NODE_BYTES - 5));
    assert (!quota_begin (&n, QUOTA_BYTES, 6));
    assert (quota_begin (&n, QUOTA_BYTES, 5));
    assert (quota_begin (&n, QUOTA_CALL, 1)); /* another kind */
    quota_end (&n, QUOTA_CALL, 1);
  }
  strcpy (n.name, "other");
  assert (!quota_begin (&n, QUOTA_BYTES, 1));
  assert (quota_begin (&u, QUOTA_BYTES, QUOTA_USER_BYTES));
  assert (!quota_begin (&u, QUOTA_BYTES, 1));
  assert (quota_begin (&a, QUOTA_BYTES, QUOTA_USER_BYTES));
  assert (quota_begin (&s, QUOTA_BYTES, QUOTA_SMALL_BYTES));
  assert (!quota_begin (&s, QUOTA_BYTES, 1));
  strcpy (n.name, "n0");
  quota_end (&n, QUOTA_BYTES, 7);
  strcpy (n.name, "other");
  assert (quota_begin (&n, QUOTA_BYTES, 7));
  assert (!quota_begin (&n, QUOTA_BYTES, 1));
}

static void
test_log (void)
{
  assert (refusals_first ("why", ours (0)));
  for (unsigned i = 1; i < 100; i++)
    assert (!refusals_first ("why", ours (i)));
  assert (refusals_first ("why", THEIRS));
}

/* Does this try have a line of its own in the audit trail? */
static bool
has_line (const char *address)
{
  static const struct route route = { .method = "DELETE",
                                      .pattern = "/api/v1/users/{name}",
                                      .who = WHO_ADMIN };
  struct request r = { .route = &route };

  strcpy (r.caller.address, address);
  return auth_audits_refusal (&r, 401, 1);
}

static void
test_audit (void)
{
  assert (has_line (ours (0)));
  for (unsigned i = 1; i < 100; i++)
    assert (!has_line (ours (i)));
  assert (has_line (THEIRS));
}

static unsigned
take (const char *address, const char *user, const char *device,
      uint64_t now_ms)
{
  const struct limit_caller c = { address, user, device };

  return limit_take (&c, now_ms);
}

/* A password's tries, of each of many users. */
static void
test_passwords (void)
{
  char user[16];
  unsigned tried = 0;

  for (; take (ours (tried), "ann", NULL, 1) == 0; tried++)
    assert (tried < 100);
  assert (tried == 5);
  assert (take (THEIRS, "ann", NULL, 1) == 0);
  do
    snprintf (user, sizeof user, "u%u", tried++);
  while (tried < 100 && take (ours (tried), user, NULL, 1) == 0);
  assert (tried < 100);
  assert (take (THEIRS, user, NULL, 1) == 0);
}

/* Strangers use up what strangers have, of the user and of the address; a device uses up
 * its own, and waits for nobody else.
 */
static void
test_devices (void)
{
  const struct limit_caller one = { THEIRS, "eve", "one" };
  char address[16];
  unsigned tried = 0;

  for (; tried < 100; tried++) {
    snprintf (address, sizeof address, "192.0.2.%u", tried);
    if (take (address, "eve", NULL, 1) > 0)
      break;
  }
  assert (tried == 40);
  while (take (THEIRS, "eve", NULL, 1) == 0 || take (THEIRS, "u", NULL, 1) == 0)
    assert (tried++ < 100);
  /* A right login costs nothing. */
  for (unsigned i = 0; i < 20; i++) {
    assert (limit_take (&one, 1) == 0);
    limit_give_back (&one, 1);
  }
  for (unsigned i = 0; i < 5; i++)
    assert (limit_take (&one, 1) == 0);
  assert (limit_take (&one, 1) == 30);
  assert (take (THEIRS, "eve", "two", 1) == 0);
  assert (limit_take (&one, 30001) == 0);
  assert (limit_take (&one, 30001) == 30);
}

/* ---- Connections. ---- */

static int peers[GUESTS_MAX]; /* by the guest's socket */

static int
connects (const char *address)
{
  struct sockaddr_in6 sa = { .sin6_family = AF_INET6, .sin6_port = htons (9) };
  int pair[2];

  assert (socketpair (AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  assert (inet_pton (AF_INET6, address, &sa.sin6_addr) == 1);
  assert (admit (pair[0], (struct sockaddr *) &sa, sizeof sa));
  peers[pair[0]] = pair[1];
  return pair[0];
}

static bool
stays (int fd)
{
  struct pollfd p = { .fd = peers[fd], .events = POLLIN };

  return poll (&p, 1, 0) == 0;
}

/* The oldest is of another network than those that are too many. */
static void
test_connections (void)
{
  int first = connects (THEIRS), flood[WAITING_MAX + 9];
  unsigned closed = 0;

  for (unsigned i = 0; i < WAITING_MAX + 9; i++)
    flood[i] = connects (ours (i));
  for (unsigned i = 0; i < WAITING_MAX + 9; i++)
    closed += !stays (flood[i]);
  assert (stays (first) && closed == 10 && !stays (flood[0]));
}

int
main (void)
{
  struct rlimit limit;

  assert (getrlimit (RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = limit.rlim_max;
  assert (setrlimit (RLIMIT_NOFILE, &limit) == 0);
  test_origin ();
  test_loopback ();
  test_quota ();
  test_quota_bytes ();
  test_log ();
  test_audit ();
  test_passwords ();
  test_devices ();
  test_connections ();
  return 0;
}
