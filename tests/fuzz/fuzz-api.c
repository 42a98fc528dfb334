/* fuzz-api.c: weftd behind civetweb: the API's headers, paths, parameters and bodies,
 * by the code that serves them, with a real loop, engine and database in memory.  No
 * sequence of requests ends weftd, and it can be started again from what it stored.
 *
 * The input: 1 byte: even, everybody may do everything (--no-login); odd, logins are
 * needed; then requests as text, separated by NULs:
 *
 *   METHOD PATH?QUERY
 *   Name: value
 *   (an empty line)
 *   body
 *
 * "TICK N" lets N ticks go by.  "Authorization: Bearer ADMIN" and "Bearer VIEWER" stand
 * for tokens that there are, "X-Node: n1" for the certificate of that node.
 */

#include <config.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/pem.h>

#include "fuzz.h"
#include "fuzz-civetweb.h"
#include "fuzz-forget.h"
#include "fuzz-json.h"
#include "fuzz-loop.h"
#include "fuzz-sqlite.h"

#include "server/http.c"

/* As it was read, from one weftd to the next, unless it changed. */
static struct trust *trust;
static bool ca_changed; /* since the input began */
static char dir[64];
static char admin[AUTH_SECRET_BYTES], viewer[AUTH_SECRET_BYTES];
static struct mg_client_cert node_certificate;

static struct http server;
static struct auth *auth;

/* ---- The files of weftd ---- */

/* What every input begins with, beside databases with users, tokens and a node. */
static struct file {
  const char *name;
  char *data;
  size_t bytes;
} files[] = {
  { .name = "ca-key.pem" },
  { .name = "ca-cert.pem" },
};

static void
path_of (char path[512], const char *name)
{
  snprintf (path, 512, "%s/%s", dir, name);
}

static void
read_file (struct file *file)
{
  char path[512];
  struct stat st;
  int fd;

  path_of (path, file->name);
  fd = open (path, O_RDONLY | O_CLOEXEC);
  assert (fd != -1 && fstat (fd, &st) == 0);
  file->bytes = (size_t) st.st_size;
  file->data = malloc (file->bytes);
  assert (file->data &&
          read (fd, file->data, file->bytes) == (ssize_t) file->bytes);
  close (fd);
}

static void
write_file (const struct file *file)
{
  char path[512];
  int fd;

  path_of (path, file->name);
  fd = open (path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  assert (fd != -1 &&
          write (fd, file->data, file->bytes) == (ssize_t) file->bytes);
  close (fd);
}

/* ---- One weftd ---- */

static void
begin_weftd (bool no_login)
{
  struct ca_names own = { .dns_count = 0 };
  struct store *store;
  char why[1024];

  if (trust == NULL)
    trust = trust_new (
      ca_open (dir, &(struct ca_networks) { .count = 0 }, why, sizeof why),
      dir);
  fuzz_audit_forget ();
  fuzz_limit_forget ();
  fuzz_quota_forget ();
  fuzz_refusals_forget ();
  auth = auth_new (no_login, trust, &own, 7 * 86400);
  server.hub = hub_new ();
  store = store_open (dir, why, sizeof why);
  if (store == NULL) {
    fprintf (stderr, "%s\n", why);
    abort ();
  }
  server.loop = fuzz_loop_begin (store, server.hub, auth);
}

static void
end_weftd (void)
{
  fuzz_loop_end ();
  auth_free (auth);
  hub_free (server.hub);
  ca_changed |= trust_version (trust) != 1;
  if (ca_changed) {
    trust_free (trust);
    trust = NULL;
  }
}

/* ---- Requests ---- */

/* What stands for something else in this header; NULL: nothing. */
static void
translate (struct mg_connection *conn, char bearer[AUTH_SECRET_BYTES + 8])
{
  for (int i = 0; i < conn->info.num_headers; i++) {
    struct mg_header *h = &conn->info.http_headers[i];

    if (strcasecmp (h->name, "Authorization") == 0 &&
        (strcmp (h->value, "Bearer ADMIN") == 0 ||
         strcmp (h->value, "Bearer VIEWER") == 0)) {
      snprintf (bearer, AUTH_SECRET_BYTES + 8, "Bearer %s",
                h->value[7] == 'A' ? admin : viewer);
      h->value = bearer;
    }
    else if (strcmp (h->name, "X-Node") == 0) {
      conn->info.client_cert = &node_certificate;
      conn->info.is_ssl = 1;
    }
    else if (strcasecmp (h->name, "Last-Event-ID") == 0)
      h->name = ""; /* or it would wait for events */
  }
}

static void
serve (struct mg_connection *conn, char *text, size_t size)
{
  char bearer[AUTH_SECRET_BYTES + 8];

  fuzz_request (conn, text, size);
  conn->info.user_data = &server;
  if (conn->info.local_uri_raw &&
      strcmp (conn->info.local_uri_raw, "/api/v1/events") == 0)
    conn->writes_left = 1; /* the client does not stay to the end */
  translate (conn, bearer);
  begin_request (conn);
  end_connection (conn);
}

/* A request of our own, that is well: the value of a field of the answer, if asked. */
static void
ask (const char *text, const char *field, char *value, size_t size)
{
  struct mg_connection conn;
  char *copy = strdup (text);
  const char *body;
  json_t *json;

  assert (copy);
  serve (&conn, copy, strlen (copy));
  body = conn.answer ? strstr (conn.answer, "\r\n\r\n") : NULL;
  if (fuzz_status (&conn) >= 300 || body == NULL) {
    fprintf (stderr, "%s\n%s\n", text, conn.answer);
    abort ();
  }
  json = json_loads (body, 0, NULL);
  if (field)
    snprintf (value, size, "%s",
              json_string_value (json_object_get (json, field)));
  json_decref (json);
  fuzz_request_end (&conn);
  free (copy);
}

static void
check_answer (const struct mg_connection *conn)
{
  int status = fuzz_status (conn);

  assert (status >= 200 && status < 600 && status != 500);
}

/* ---- Before the first input ---- */

#define HEAD "Host: localhost\nContent-Type: application/json\n"

static void
enroll (const char *secret)
{
  EVP_PKEY *key = EVP_EC_gen ("P-256");
  X509_REQ *request = X509_REQ_new ();
  BIO *bio = BIO_new (BIO_s_mem ());
  char text[4096], pem[4096], *data;
  json_t *body, *csr;
  long n;

  X509_REQ_set_pubkey (request, key);
  X509_REQ_sign (request, key, EVP_sha256 ());
  PEM_write_bio_X509_REQ (bio, request);
  n = BIO_get_mem_data (bio, &data);
  csr = json_stringn (data, (size_t) n);
  body = json_pack ("{ss ss so}", "token", secret, "node", "n1", "csr", csr);
  data = json_dumps (body, 0);
  snprintf (text, sizeof text, "POST /api/v1/enroll\n" HEAD "\n%s", data);
  ask (text, "certificate", pem, sizeof pem);
  free (data);
  json_decref (body);
  BIO_free (bio);
  bio = BIO_new_mem_buf (pem, -1);
  node_certificate.peer_cert = PEM_read_bio_X509 (bio, NULL, NULL, NULL);
  assert (node_certificate.peer_cert);
  BIO_free (bio);
  X509_REQ_free (request);
  EVP_PKEY_free (key);
}

/* The other process's directory is none of ours, and is not needed when it has ended. */
static void
clean_up (void)
{
  DIR *d = opendir (dir);
  struct dirent *e;
  char path[512];

  while (d && (e = readdir (d)) != NULL)
    if (e->d_name[0] != '.') {
      path_of (path, e->d_name);
      unlink (path);
    }
  if (d)
    closedir (d);
  rmdir (dir);
}

static void
begin_once (void)
{
  static bool begun;
  char text[1024], secret[AUTH_SECRET_BYTES];

  if (begun)
    return;
  begun = true;
  strcpy (dir, "/dev/shm/weft-fuzz-XXXXXX");
  if (mkdtemp (dir) == NULL) {
    strcpy (dir, "/tmp/weft-fuzz-XXXXXX");
    assert (mkdtemp (dir));
  }
  atexit (clean_up);
  /* What weftd says to the journal is of no use here. */
  assert (freopen ("/dev/null", "w", stdout));
  server.options.ui_dir = "/nowhere";
  server.options.openapi = "/nowhere/openapi.json";
  fuzz_replies_words ();
  begin_weftd (false);
  auth_setup_begin (auth, secret, "/nowhere/setup-url");
  snprintf (text, sizeof text,
            "POST /api/v1/setup\n" HEAD
            "\n{\"token\": \"%s\", \"user\": \"kim\", \"password\": \"long "
            "enough, it is\"}",
            secret);
  {
    struct mg_connection conn;
    char *copy = strdup (text);
    char cookie[256] = "", csrf[128] = "";
    const char *set;

    serve (&conn, copy, strlen (copy));
    set = conn.answer ? strstr (conn.answer, "Set-Cookie: ") : NULL;
    if (set == NULL)
      fprintf (stderr, "%s\n", conn.answer ? conn.answer : "no answer");
    assert (set && sscanf (set, "Set-Cookie: %255[^;]", cookie) == 1);
    fuzz_request_end (&conn);
    free (copy);
    snprintf (text, sizeof text, "GET /api/v1/me\n" HEAD "Cookie: %s\n\n",
              cookie);
    ask (text, "csrf", csrf, sizeof csrf);
    snprintf (text, sizeof text,
              "POST /api/v1/tokens\n" HEAD "Cookie: %s\nX-Weft-CSRF: %s\n\n"
              "{\"name\": \"admins\", \"role\": \"admin\"}",
              cookie, csrf);
    ask (text, "token", admin, sizeof admin);
    snprintf (text, sizeof text,
              "POST /api/v1/tokens\n" HEAD "Cookie: %s\nX-Weft-CSRF: %s\n\n"
              "{\"name\": \"viewers\", \"role\": \"viewer\"}",
              cookie, csrf);
    ask (text, "token", viewer, sizeof viewer);
  }
  ask ("POST /api/v1/node-tokens\n" HEAD
       "Authorization: Bearer ADMIN\n\n{\"node\": \"n1\"}",
       "token", secret, sizeof secret);
  enroll (secret);
  end_weftd ();
  for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++)
    read_file (&files[i]);
}

/* ---- Inputs ---- */

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz f = { data, size };
  sqlite3_int64 changes;
  bool no_login;

  begin_once ();
  fuzz_json_begin ();
  no_login = !(fuzz_number (&f, 1) & 1);
  for (unsigned i = 0; ca_changed && i < sizeof files / sizeof files[0]; i++)
    write_file (&files[i]);
  ca_changed = false;
  fuzz_sqlite_begin ();
  begin_weftd (no_login);
  changes = fuzz_sqlite_changes ();
  for (unsigned i = 0; i < 24 && f.left > 0; i++) {
    struct mg_connection conn;
    size_t n;
    char *text = fuzz_text (&f, &n);

    if (strncmp (text, "TICK ", 5) == 0)
      fuzz_loop_tick ((unsigned) atoi (text + 5) % 64);
    else if (strcmp (text, "RESTART") == 0) {
      end_weftd ();
      begin_weftd (no_login);
      changes = fuzz_sqlite_changes ();
    }
    else {
      serve (&conn, text, n);
      check_answer (&conn);
      cluster_check (loop_cluster (server.loop));
      fuzz_request_end (&conn);
    }
    free (text);
  }
  end_weftd ();
  if (fuzz_sqlite_changes () != changes) { /* what was stored can be read */
    begin_weftd (no_login);
    end_weftd ();
  }
  fuzz_sqlite_end ();
  fuzz_json_end ();
  return 0;
}

#define BEAT                                                                   \
  "\"node\": \"n1\", \"uri\": \"nbd://n1:10810\", \"path\": \"/dev/sdb\", "    \
  "\"size\": 1074790400, \"data_bytes\": 1073741824, \"min_epoch\": 0, "       \
  "\"generation\": 0, \"sequence\": 2, \"state\": \"serving\", \"report\": 1}"
#define DISK(n)                                                                \
  "POST /api/v1/disks/0" n                                                     \
  "000000-0000-0000-0000-000000000000/heartbeat\n" HEAD                        \
  "\n{\"instance\": \"d" n "\", " BEAT "\0"
#define DISKS                                                                  \
  "[\"01000000-0000-0000-0000-000000000000\", "                                \
  "\"02000000-0000-0000-0000-000000000000\"]"

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  static const char array[] = "0" DISK ("1")
    DISK ("2") "POST /api/v1/arrays\n" HEAD
               "Idempotency-Key: k\n\n{\"name\": \"a\", \"layout\": "
               "\"raid-1\", \"disks\": " DISKS "}\0TICK 4\0" DISK ("1")
                 DISK ("2") "POST /api/v1/arrays/a/sessions\n" HEAD
                            "\n{\"instance\": \"h\", \"node\": \"n1\", "
                            "\"pid\": 1, \"mode\": \"rw\"}\0"
                            "GET /api/v1/arrays?limit=1\n" HEAD "\n\0"
                            "GET /api/v1/arrays/a\n" HEAD
                            "If-None-Match: \"x\"\n\n\0"
                            "DELETE /api/v1/arrays/a?dry_run=true\n" HEAD
                            "If-Match: \"x\"\n\n\0"
                            "RESTART\0GET /metrics\n" HEAD "\n";
  static const char people[] =
    "1GET /api/v1/me\n" HEAD "\n\0"
    "GET /api/v1/users\n" HEAD "Authorization: Bearer ADMIN\n\n\0"
    "POST /api/v1/users\n" HEAD "Authorization: Bearer VIEWER\n\n{\"name\": "
    "\"u\", \"role\": \"admin\", \"password\": \"long enough, it is\"}\0"
    "GET /api/v1/audit?limit=3&cursor=9\n" HEAD
    "Authorization: Bearer ADMIN\n\n\0"
    "POST /api/v1/logout\n" HEAD "Cookie: weft-login=00; a=b\n\n\0"
    "POST /api/v1/node-tokens\n" HEAD "Authorization: Bearer ADMIN\n\n"
    "{\"node\": \"n2\"}\0"
    "POST /api/v1/nodes/n1/certificate\n" HEAD "X-Node: n1\n\n{\"csr\": "
    "\"-----BEGIN CERTIFICATE REQUEST-----\"}\0"
    "GET /api/v1/events\n" HEAD "X-Node: n1\n\n\0"
    "GET /\nHost: [::1]:7380\n\n\0GET /x/../y\nHost: 127.0.0.1\nOrigin: "
    "http://elsewhere\n\n";
  static const char reads[] =
    "0GET /api/v1/disks\n" HEAD "\n\0GET /api/v1/jobs\n" HEAD "\n\0"
    "GET /api/v1/nodes\n" HEAD "\n\0GET /api/v1/sessions\n" HEAD "\n\0"
    "GET /api/v1/log?severity=error&text=a%20b&subject=x\n" HEAD "\n\0"
    "GET /api/v1/history?from=1&to=2&points=3\n" HEAD "\n\0"
    "PATCH /api/v1/nodes/n1\n" HEAD "\n{\"maintenance\": true}\0"
    "POST /api/v1/layouts\n" HEAD "\n{\"disks\": " DISKS "}";

  seed (array, sizeof array - 1);
  seed (people, sizeof people - 1);
  seed (reads, sizeof reads - 1);
}
