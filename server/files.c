/* files.c: see files.h.
 *
 * A path from the wire is split at '/', and each part must be of letters,
 * digits, '-', '_' and '.', and not begin with '.': so it cannot leave the
 * directory that it is appended to.
 */

#include <config.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <civetweb.h>

#include "alloc.h"
#include "files.h"
#include "http-internal.h"

#define FILE_BYTES_MAX (16 << 20)

/* Where Debian's packages (and some others) have what the page uses. */
static const struct {
  const char *name;
  const char *dirs[3];
} vendors[] = {
  { "bootstrap5",
    { "/usr/share/javascript/bootstrap5", "/usr/share/bootstrap-html",
      "/usr/share/nodejs/bootstrap/dist" } },
  { "dygraphs",
    { "/usr/share/javascript/dygraphs", "/usr/share/nodejs/dygraphs/dist",
      NULL } },
};

static const char *
type_of (const char *name)
{
  static const char *const types[][2] = {
    { ".html", "text/html; charset=utf-8" },
    { ".css", "text/css; charset=utf-8" },
    { ".js", "text/javascript; charset=utf-8" },
    { ".mjs", "text/javascript; charset=utf-8" },
    { ".json", "application/json" },
    { ".map", "application/json" },
    { ".svg", "image/svg+xml" },
    { ".png", "image/png" },
    { ".ico", "image/x-icon" },
    { ".woff2", "font/woff2" },
    { ".woff", "font/woff" },
    { ".txt", "text/plain; charset=utf-8" },
  };
  const char *dot = strrchr (name, '.');

  for (size_t i = 0; dot && i < sizeof types / sizeof types[0]; i++)
    if (strcmp (dot, types[i][0]) == 0)
      return types[i][1];
  return "application/octet-stream";
}

static bool
is_safe (const char *path)
{
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  size_t n;

  do {
    n = strspn (path, letters);
    if (n == 0 || path[0] == '.')
      return false;
    path += n;
  } while (*path++ == '/');
  return path[-1] == '\0';
}

static int
send_file (struct mg_connection *conn, int fd, const struct stat *st,
           const char *name)
{
  char etag[64], headers[160];
  const char *had = mg_get_header (conn, "If-None-Match");
  size_t length = (size_t) st->st_size, done = 0;
  char *data;
  ssize_t n;
  int r;

  snprintf (etag, sizeof etag, "\"%jx-%jx\"", (uintmax_t) st->st_size,
            (uintmax_t) st->st_mtim.tv_sec * 1000000000u +
              (uintmax_t) st->st_mtim.tv_nsec);
  /* The page must never be older than the API that it talks to. */
  snprintf (headers, sizeof headers, "Cache-Control: no-cache\r\nETag: %s\r\n",
            etag);
  if (had && strcmp (had, etag) == 0)
    return http_reply_send (conn, 304, type_of (name), headers, "", 0);
  data = alloc_bytes (length + 1);
  while (done < length && (n = read (fd, data + done, length - done)) > 0)
    done += (size_t) n;
  r = http_reply_send (conn, 200, type_of (name), headers, data, done);
  free (data);
  return r;
}

int
files_serve (struct mg_connection *conn, const char *file, const char *name)
{
  int fd = open (file, O_RDONLY | O_CLOEXEC | O_NONBLOCK), r;
  struct stat st;

  if (fd == -1)
    return http_reply_not_found (conn, name);
  if (fstat (fd, &st) == -1 || !S_ISREG (st.st_mode) ||
      st.st_size > FILE_BYTES_MAX)
    r = http_reply_not_found (conn, name);
  else
    r = send_file (conn, fd, &st, name);
  close (fd);
  return r;
}

static int
serve_vendor (struct mg_connection *conn, const char *path)
{
  char file[4096];

  for (size_t i = 0; i < sizeof vendors / sizeof vendors[0]; i++) {
    size_t n = strlen (vendors[i].name);

    if (strncmp (path, vendors[i].name, n) != 0 || path[n] != '/')
      continue;
    for (size_t d = 0; d < 3 && vendors[i].dirs[d]; d++) {
      snprintf (file, sizeof file, "%s/%s", vendors[i].dirs[d], path + n + 1);
      if (access (file, R_OK) == 0)
        return files_serve (conn, file, path);
    }
  }
  return http_reply_not_found (conn, path);
}

int
files_serve_path (struct mg_connection *conn, const char *ui_dir,
                  const char *path)
{
  char file[4096];

  path++; /* the '/' */
  if (path[0] == '\0')
    path = "index.html";
  if (!is_safe (path))
    return http_reply_not_found (conn, "this path");
  if (strncmp (path, "vendor/", 7) == 0)
    return serve_vendor (conn, path + 7);
  if ((size_t) snprintf (file, sizeof file, "%s/%s", ui_dir, path) >=
      sizeof file)
    return http_reply_not_found (conn, "this path");
  return files_serve (conn, file, path);
}
