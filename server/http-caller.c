/* http-caller.c: identifies the caller before more of a request is read. */

#include <config.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <openssl/crypto.h>

#include "common/clock.h"
#include "pki/ca.h"
#include "http-internal.h"
#include "routes.h"

/* How long the host's name is in "name", "name:port" or "[address]:port"; 0: it
 * is none of these.
 */
static size_t
name_length (const char *host)
{
  size_t n = host[0] == '[' ? strcspn (host, "]") + 1 : strcspn (host, ":");
  const char *port = host + n;

  if (n > strlen (host) || (*port != ':' && *port != '\0'))
    return 0;
  if (*port == ':' && strspn (port + 1, "0123456789") != strlen (port + 1))
    return 0;
  return n;
}

/* Is it a name under which weftd is served?  Any address is, where it listens
 * on all of them: no page can make an address point elsewhere.
 */
static bool
is_ours (const struct http_options *o, const char *host)
{
  size_t n = name_length (host);
  char name[256], *address = name;
  struct in6_addr in6;
  struct in_addr in;
  bool literal;

  if (n == 0 || n >= sizeof name)
    return false;
  memcpy (name, host, n);
  name[n] = '\0';
  if (name[0] == '[') {
    name[n - 1] = '\0';
    address++;
    literal = inet_pton (AF_INET6, address, &in6) == 1;
    if (literal)
      inet_ntop (AF_INET6, &in6, address, 46);
  }
  else
    literal = inet_pton (AF_INET, address, &in) == 1;
  if (strcasecmp (address, "localhost") == 0 || strcmp (address, "::1") == 0 ||
      (literal && strncmp (address, "127.", 4) == 0))
    return true;
  for (unsigned i = 0; literal && i < o->listeners_count; i++)
    if (o->listeners[i].any || strcmp (o->listeners[i].address, address) == 0)
      return true;
  for (unsigned i = 0; !literal && i < o->host_names_count; i++)
    if (strcasecmp (o->host_names[i], address) == 0)
      return true;
  return false;
}

bool
http_caller_refuse_stranger (struct http *h, struct mg_connection *conn)
{
  const char *host = mg_get_header (conn, "Host");
  const char *origin = mg_get_header (conn, "Origin");
  const char *rest;

  if (host == NULL || !is_ours (&h->options, host)) {
    http_reply_log_refusal (conn, "a Host header that names another host");
    http_reply_refuse (
      conn, 403, NULL, NULL, "",
      "the Host header must name an address on which weftd listens, "
      "or a name that was given by --host-name");
    return true;
  }
  if (origin == NULL)
    return false;
  rest = strstr (origin, "://");
  if (rest == NULL || strcasecmp (rest + 3, host) != 0) {
    http_reply_log_refusal (conn, "a page from another origin");
    http_reply_refuse (conn, 403, NULL, NULL, "",
                       "a page from another origin may not call weftd");
    return true;
  }
  return false;
}

bool
http_caller_leave_localhost (struct http *h, struct mg_connection *conn,
                             const char *path)
{
  const char *host = mg_get_header (conn, "Host");
  size_t n = name_length (host);
  char location[320];

  /* By HTTPS the browser asks for weftd's certificate. */
  if (mg_get_request_info (conn)->is_ssl || n != strlen ("localhost") ||
      strncasecmp (host, "localhost", n) != 0)
    return false;
  for (unsigned i = 0; i < h->options.listeners_count; i++) {
    const struct listener *l = &h->options.listeners[i];
    bool six = strchr (l->address, ':') != NULL;

    if (l->tls)
      continue;
    /* Another port may lead here, such as that of ssh -L. */
    snprintf (location, sizeof location,
              "Location: http://%s%s%s%.6s%.200s\r\n", six ? "[" : "",
              l->address, six ? "]" : "", host + n,
              strlen (path) <= 200 ? path : "/");
    http_reply_send (conn, 307, "text/plain", location, "", 0);
    return true;
  }
  return false;
}

bool
http_caller_take (struct http *h, struct mg_connection *conn, struct request *r)
{
  const struct mg_request_info *info = mg_get_request_info (conn);
  struct auth *auth = loop_auth (h->loop);
  struct auth_credentials given = {
    .authorization = mg_get_header (conn, "Authorization"),
    .origin_secret = mg_get_header (conn, "X-Weft-Origin-Secret"),
  };
  const char *cookies = mg_get_header (conn, "Cookie");
  struct refusal refusal;
  char cookie[128], node[64], serial[CA_SERIAL_BYTES];
  char revoked[REVOKED_NAME_BYTES], headers[128];
  char issuer[CA_SUBJECT_BYTES], process[CA_PROCESS_BYTES];
  X509 *peer = info->client_cert ? info->client_cert->peer_cert : NULL;
  bool fine;

  snprintf (r->caller.address, sizeof r->caller.address, "%.45s",
            info->remote_addr);
  r->caller.tls = info->is_ssl;
  if (cookies && mg_get_cookie (cookies, auth_cookie_name (info->is_ssl),
                                cookie, sizeof cookie) > 0)
    given.cookie = cookie;
  if (peer && ca_common_name (peer, node, sizeof node)) {
    ca_serial (peer, serial);
    given.node = node;
    given.serial = serial;
    ca_signed (peer, &given.until, issuer);
    given.issuer = issuer;
    ca_process (peer, process);
    given.process = process;
  }
  fine = (auth_recognise (auth, &given, clock_wall_ms (), &r->caller,
                          &refusal) ||
          (r->route->proves && given.authorization == NULL)) &&
         auth_may (auth, &r->caller, r->route, &refusal);
  OPENSSL_cleanse (cookie, sizeof cookie);
  if (fine) {
    r->certificate = r->caller.via == VIA_CERTIFICATE ? peer : NULL;
    return true;
  }
  http_reply_log_refusal (conn, refusal.code);
  if (!http_body_drop (conn))
    return false;
  if (auth_audits_refusal (r, refusal.status, clock_wall_ms ())) {
    r->refused = refusal;
    loop_ask (h->loop, r);
  }
  /* A node whose certificate is not known here may know of a newer list. */
  auth_revoked_name (auth, revoked);
  snprintf (headers, sizeof headers, "%sWeft-Revoked: %s\r\n",
            refusal.status == 401 ? "WWW-Authenticate: Bearer\r\n" : "",
            revoked);
  http_reply_refuse (conn, refusal.status, NULL, refusal.code, headers, "%s",
                     refusal.why);
  return false;
}
