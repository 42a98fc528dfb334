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
 * "TICK N" lets N ticks go by, "RESTART" starts weftd again.  "MEMBERS": from then on two
 * disks send heartbeats every two seconds, and obey the answers.  "Authorization: Bearer
 * ADMIN" and "Bearer VIEWER" stand for existing tokens, "X-Node: n1" for the certificate
 * of that node.  Words in braces, as in the routes' patterns, stand for possible names
 * and for values from weftd's answers (`words` below).
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
#include "fuzz-random.h"
#include "fuzz-sqlite.h"

#include "server/http.c"

/* As it was read, from one weftd to the next, unless it changed. */
static struct trust *trust;
static bool ca_changed; /* since the input began */
static char dir[64];
static char admin[AUTH_SECRET_BYTES], viewer[AUTH_SECRET_BYTES];
static struct mg_client_cert node_certificate;

static unsigned member_ticks; /* since the input began */
static void members_tick (void);

static struct http server;
static struct auth *auth;

/* ---- The files of weftd ---- */

/* Files that every input begins with, beside databases with users, tokens and a node. */
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

static const struct ca_networks no_networks;

static void
begin_weftd (bool no_login)
{
  struct ca_names own = { .dns_count = 0 };
  struct store *store;
  char why[1024];

  if (trust == NULL)
    trust = trust_new (ca_open (dir, &no_networks, why, sizeof why), dir,
                       &no_networks);
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
  server.loop = fuzz_loop_begin (store, server.hub, auth, members_tick);
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

/* ---- Words that stand for something else ---- */

/* Values unknown beforehand are taken from answers: the text after `mark`, up to one of
 * `end`.
 */
static struct word {
  const char *word, *mark, *end;
  char value[2 * AUTH_SECRET_BYTES];
} words[] = {
  { .word = "{name}", .value = "a" },
  { .word = "{node}", .value = "n1" },
  { .word = "{uuid}", .value = "01000000-0000-0000-0000-000000000000" },
  { .word = "{member}", .value = "1" },
  { .word = "{job}", .value = "create-a" },
  { .word = "{id}", .mark = "\"id\":\"", .end = "\"" },
  { .word = "{token}", .mark = "\"token\":\"", .end = "\"" },
  { .word = "{origin_secret}", .mark = "\"origin_secret\":\"", .end = "\"" },
  { .word = "{cookie}", .mark = "Set-Cookie: ", .end = ";" },
  { .word = "{etag}", .mark = "ETag: ", .end = "\r" },
  /* The newest session, and the one before it. */
  { .word = "{session}", .mark = "\r\n\r\n{\"session\":\"", .end = "\"" },
  { .word = "{older}" },
};
#define WORDS (sizeof words / sizeof words[0])

static void
forget_words (void)
{
  for (struct word *w = words; w < words + WORDS; w++)
    if (w->mark)
      w->value[0] = '\0';
  words[WORDS - 1].value[0] = '\0';
}

static void
learn_words (const char *answer)
{
  for (struct word *w = words; w < words + WORDS; w++) {
    const char *at = w->mark ? strstr (answer, w->mark) : NULL;

    if (at == NULL)
      continue;
    at += strlen (w->mark);
    if (w == words + WORDS - 2) {
      if (strncmp (at, w[0].value, strcspn (at, w->end)) == 0 ||
          strncmp (at, w[1].value, strcspn (at, w->end)) == 0)
        continue;
      strcpy (w[1].value, w->value);
    }
    snprintf (w->value, sizeof w->value, "%.*s", (int) strcspn (at, w->end),
              at);
  }
}

/* A copy of the text, to be freed, with the words' values in their places. */
static char *
with_words (const char *text, size_t size, size_t *bytes)
{
  size_t room = size + 1, n = 0;
  char *copy;

  for (size_t i = 0; i < size; i++)
    room += text[i] == '{' ? sizeof words->value : 0;
  copy = malloc (room);
  assert (copy);
  while (size > 0) {
    const struct word *w = words;
    size_t skip = 1;

    while (w < words + WORDS && (*text != '{' || size < strlen (w->word) ||
                                 memcmp (text, w->word, strlen (w->word)) != 0))
      w++;
    if (w < words + WORDS) {
      skip = strlen (w->word);
      n += (size_t) sprintf (copy + n, "%s", w->value);
    }
    else
      copy[n++] = *text;
    text += skip;
    size -= skip;
  }
  *bytes = n;
  copy = realloc (copy, n + 1); /* so that the sanitizer sees who reads on */
  assert (copy);
  copy[n] = '\0';
  return copy;
}

/* ---- Requests ---- */

/* The replacement of this header's value; NULL: none. */
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

/* A number that another text of the headers hardly has. */
static uint64_t
headers_sum (const struct mg_connection *conn)
{
  uint64_t sum = 0;

  for (int i = 0; i < conn->info.num_headers; i++) {
    const struct mg_header *h = &conn->info.http_headers[i];

    for (const char *c = h->name; *c; c++)
      sum = 31 * sum + (uint8_t) *c;
    for (const char *c = h->value; *c; c++)
      sum = 31 * sum + (uint8_t) *c;
  }
  return sum;
}

static void
serve (struct mg_connection *conn, char *text, size_t size)
{
  char bearer[AUTH_SECRET_BYTES + 8];
  uint64_t sum;

  fuzz_request (conn, text, size);
  conn->info.user_data = &server;
  if (conn->info.local_uri_raw &&
      strcmp (conn->info.local_uri_raw, "/api/v1/events") == 0)
    conn->writes_left = 1; /* the client does not stay to the end */
  translate (conn, bearer);
  fuzz_request_lay_out (conn);
  sum = headers_sum (conn);
  begin_request (conn);
  /* Members may have made requests of their own meanwhile (members_tick). */
  assert (headers_sum (conn) == sum);
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

#define HEAD "Host: localhost\nContent-Type: application/json\n"

/* ---- Members ---- */

#define MEMBERS 2

/* Each member's report; NULL: none.  If weftd knows the report, the member sends only its
 * number.
 */
static json_t *members[MEMBERS];
static bool known[MEMBERS];

static void
members_begin (void)
{
  for (int i = 0; i < MEMBERS; i++) {
    char instance[8];

    if (members[i])
      continue;
    snprintf (instance, sizeof instance, "d%d", i + 1);
    members[i] = json_pack (
      "{ss ss ss ss ss sI sI si si si sI ss}", "instance", instance, "node",
      "n1", "uri", "nbd://n1:10810", "path", "/dev/sdb", "cache", "boot 8:1 4",
      "size", (json_int_t) 1074790400, "data_bytes", (json_int_t) 1073741824,
      "min_epoch", 0, "generation", 0, "report", 0, "sequence", (json_int_t) 2,
      "state", "serving");
  }
}

static void
members_end (void)
{
  for (int i = 0; i < MEMBERS; i++) {
    json_decref (members[i]);
    members[i] = NULL;
    known[i] = false;
  }
}

/* Sets this field of its report; false: unchanged. */
static bool
member_says (json_t *member, const char *field, json_t *value)
{
  if (value == NULL || json_equal (json_object_get (member, field), value))
    return false;
  json_object_set (member, field, value);
  return true;
}

/* It obeys the answer, and reports that.  Returns whether anything is new. */
static bool
member_hears (json_t *member, const json_t *answer)
{
  static const char *const fields[] = { "generation", "cluster", "min_epoch" };
  json_t *place = json_object_get (answer, "assignment");
  json_t *over = json_object_get (answer, "over"), *value;
  const char *field;
  bool news = false;

  for (unsigned i = 0; i < sizeof fields / sizeof fields[0]; i++)
    news |= member_says (member, fields[i],
                         json_object_get (answer, fields[i]));
  if (json_object_get (answer, "release"))
    news |= json_object_del (member, "array") == 0;
  json_object_foreach (place, field, value)
    news |= member_says (member, field, value);
  news |= member_says (member, "states_epoch",
                       json_object_get (place, "epoch"));
  if (json_array_size (over) > 0)
    news |= member_says (
      member, "over",
      json_object_get (json_array_get (over, json_array_size (over) - 1),
                       "number"));
  return news;
}

static void
member_speaks (int i)
{
  struct mg_connection conn;
  json_t *report = json_object_get (members[i], "report"), *answer;
  char *body = NULL, *text = NULL;
  int n;

  if (known[i])
    n = asprintf (&body,
                  "{\"instance\": \"d%d\", \"node\": \"n1\", \"news\": false, "
                  "\"report\": %d, \"sequence\": 2}",
                  i + 1, (int) json_integer_value (report));
  else {
    json_integer_set (report, json_integer_value (report) + 1);
    body = json_dumps (members[i], 0);
  }
  n = asprintf (&text,
                "POST /api/v1/disks/0%d000000-0000-0000-0000-000000000000/"
                "heartbeat\n" HEAD "X-Node: n1\n\n%s",
                i + 1, body);
  assert (n > 0);
  serve (&conn, text, (size_t) n);
  check_answer (&conn);
  known[i] = fuzz_status (&conn) == 200;
  if (known[i]) {
    answer = json_loads (strstr (conn.answer, "\r\n\r\n"), 0, NULL);
    known[i] = !member_hears (members[i], answer);
    json_decref (answer);
  }
  fuzz_request_end (&conn);
  free (text);
  free (body);
}

/* A tick goes by. */
static void
members_tick (void)
{
  static bool speaking;

  if (speaking || ++member_ticks % (REST_MS / CLUSTER_TICK_MS) != 0)
    return;
  speaking = true;
  for (int i = 0; i < MEMBERS; i++)
    if (members[i])
      member_speaks (i);
  speaking = false;
}

/* ---- Before the first input ---- */

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
  sqlite3 *db;

  if (begun)
    return;
  begun = true;
  strcpy (dir, "/dev/shm/weft-fuzz-XXXXXX");
  if (mkdtemp (dir) == NULL) {
    strcpy (dir, "/tmp/weft-fuzz-XXXXXX");
    assert (mkdtemp (dir));
  }
  atexit (clean_up);
  /* weftd's messages to the journal are useless here. */
  assert (freopen ("/dev/null", "w", stdout));
  server.options.ui_dir = "/nowhere";
  server.options.openapi = "/nowhere/openapi.json";
  fuzz_replies_words ();
  fuzz_random_begin (0);
  begin_weftd (false);
  auth_setup_at (auth, "/nowhere/setup-url", "");
  auth_setup_begin (auth, secret);
  snprintf (text, sizeof text,
            "POST /api/v1/setup\n" HEAD
            "\n{\"token\": \"%s\", \"user\": \"kim\", \"password\": \"long "
            "enough, it is\"}",
            secret);
  {
    struct mg_connection conn;
    char *copy = strdup (text);
    char login[512];
    int cookie, origin_secret;
    const char *set, *secret_at;

    serve (&conn, copy, strlen (copy));
    set = conn.answer ? strstr (conn.answer, "Set-Cookie: ") : NULL;
    if (set == NULL)
      fprintf (stderr, "%s\n", conn.answer ? conn.answer : "no answer");
    assert (set);
    set += strlen ("Set-Cookie: ");
    secret_at = strstr (set, "\"origin_secret\":\"");
    assert (secret_at);
    secret_at += strlen ("\"origin_secret\":\"");
    cookie = (int) strcspn (set, ";");
    origin_secret = (int) strcspn (secret_at, "\"");
    snprintf (login, sizeof login, "Cookie: %.*s\nX-Weft-Origin-Secret: %.*s",
              cookie, set, origin_secret, secret_at);
    fuzz_request_end (&conn);
    free (copy);
    snprintf (text, sizeof text,
              "POST /api/v1/tokens\n" HEAD "%s\n\n"
              "{\"name\": \"admins\", \"role\": \"admin\"}",
              login);
    ask (text, "token", admin, sizeof admin);
    snprintf (text, sizeof text,
              "POST /api/v1/tokens\n" HEAD "%s\n\n"
              "{\"name\": \"viewers\", \"role\": \"viewer\"}",
              login);
    ask (text, "token", viewer, sizeof viewer);
  }
  ask ("POST /api/v1/node-tokens\n" HEAD
       "Authorization: Bearer ADMIN\n\n{\"node\": \"n1\"}",
       "token", secret, sizeof secret);
  enroll (secret);
  end_weftd ();
  /* Inputs make lines of their own, and to read these each time took a while. */
  path_of (text, "weftd.db");
  fuzz_sqlite_open (text, &db);
  assert (fuzz_sqlite_exec (db, "DELETE FROM record WHERE kind IN ('audit', "
                                "'event')") == SQLITE_OK);
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
  member_ticks = 0;
  forget_words ();
  fuzz_random_begin (1);
  fuzz_sqlite_begin ();
  begin_weftd (no_login);
  changes = fuzz_sqlite_changes ();
  for (unsigned i = 0; i < 24 && f.left > 0; i++) {
    struct mg_connection conn;
    size_t n;
    char *text = fuzz_text (&f, &n);

    if (strncmp (text, "TICK ", 5) == 0)
      fuzz_loop_tick ((unsigned) atoi (text + 5) % 64);
    else if (strcmp (text, "MEMBERS") == 0)
      members_begin ();
    else if (strcmp (text, "RESTART") == 0) {
      end_weftd ();
      begin_weftd (no_login);
      changes = fuzz_sqlite_changes ();
    }
    else {
      char *request = with_words (text, n, &n);

      serve (&conn, request, n);
      check_answer (&conn);
      cluster_check (loop_cluster (server.loop));
      learn_words (conn.answer);
      fuzz_request_end (&conn);
      free (request);
    }
    free (text);
  }
  members_end ();
  end_weftd ();
  if (fuzz_sqlite_changes () != changes) { /* the stored state can be read */
    begin_weftd (no_login);
    end_weftd ();
  }
  fuzz_sqlite_end ();
  fuzz_json_end ();
  return 0;
}

#include "fuzz-api-seeds.h"

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++)
    seed (seeds[i].data, seeds[i].size);
}
