/* cmd-node.c: weftctl node, and ok-to-stop. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "output.h"

#define NODES "/api/v1/nodes"
#define NODE_TOKENS "/api/v1/node-tokens"
#define TOKEN_ID_BYTES 16 /* hex digits */
#define TTL_S_MAX 86400

/* --- Looking -------------------------------------------------------------- */

/* In a word: the ordered state comes before the actual one. */
static const char *
node_state (const json_t *node)
{
  static const char *const states[] = { "fenced", "drained", "draining",
                                        "maintenance", "alive" };

  for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
    if (output_json_yes (node, states[i]))
      return states[i];
  return "silent";
}

static void
node_row (struct table *t, const json_t *node)
{
  const json_t *load = json_object_get (node, "load");
  size_t disks = json_array_size (json_object_get (node, "disks"));

  output_table_cell (t, "%s", node_state (node));
  output_table_cell (t, "%zu", disks);
  output_table_cell (t, "%zu",
                     disks - output_json_number (node, "disks_alive"));
  output_table_cell (t, "%zu",
                     json_array_size (json_object_get (node, "sessions")));
  if (json_is_object (load)) {
    output_table_cell (t, "%.0f%%",
                       100 * json_number_value (json_object_get (load, "cpu")));
    output_table_cell (t, "%.2f",
                       json_number_value (json_object_get (load, "loadavg")));
    output_table_cells (t, load, "mem_free:size");
  }
  else
    for (unsigned k = 0; k < 3; k++)
      output_table_cell (t, "-");
}

int
cmd_node_ls (struct ctl *ctl, const struct args *args)
{
  json_t *reply, *nodes;
  int r;

  if (!ctl_list (ctl, NODES, &reply, &r))
    return r;
  nodes = json_object_get (reply, "nodes");
  if (json_array_size (nodes) == 0)
    fprintf (stderr,
             "No node is known yet: start a member there by "
             "nbdkit weft disk=PATH admin=%s uri=URI\n",
             ctl->admin_url);
  output_table_of (
    nodes, "NODE|!STATE|>DISKS|>SILENT|>SESSIONS|>CPU|>LOAD|>MEMORY FREE",
    "name", node_row, 0);
  json_decref (reply);
  return EXIT_OK;
}

static void
print_ids (const char *what, const json_t *ids)
{
  json_t *id;
  size_t i;

  json_array_foreach (ids, i, id)
    printf ("  %-12s %s\n", what, output_json_shown (id));
}

/* The members that stay though the node is drained, and what each waits for.
 * Returns how many.
 */
static size_t
print_stays (const json_t *node)
{
  const json_t *stays = json_object_get (node, "stays"), *s;
  size_t i;

  json_array_foreach (stays, i, s)
    printf ("  member %" PRIu64 " of array %s waits for %s\n",
            output_json_number (s, "member"), output_json_text (s, "array"),
            output_json_text (s, "waits"));
  return json_array_size (stays);
}

static void
print_node (const json_t *node)
{
  const char *state = node_state (node);
  const json_t *load = json_object_get (node, "load");
  char size[SIZE_TEXT_BYTES];

  printf ("node %s: %s%s%s\n", output_json_text (node, "name"),
          output_color_start (state), state, output_color_end (state));
  printf ("  %-12s %s\n", "heard",
          output_json_yes (node, "alive") ? "yes" : "no");
  if (output_json_has (node, "maintenance_since"))
    printf ("  %-12s since %s\n", "maintenance",
            output_json_text (node, "maintenance_since"));
  if (output_json_has (node, "fenced_since"))
    printf ("  %-12s since %s\n", "fenced",
            output_json_text (node, "fenced_since"));
  if (print_stays (node) == 0 && output_json_has (node, "waits"))
    printf ("  %-12s %s\n", "waits for", output_json_text (node, "waits"));
  printf ("  %-12s %s\n", "certificate",
          output_json_yes (node, "enrolled") ? "" : "none");
  print_ids ("  address", json_object_get (node, "addresses"));
  if (output_json_has (node, "certificate_expires"))
    printf ("  %-12s %s\n", "  expires",
            output_json_text (node, "certificate_expires"));
  if (json_is_object (load))
    printf ("  %-12s CPU %.0f %%, load %.2f, %s of memory free\n", "load",
            100 * json_number_value (json_object_get (load, "cpu")),
            json_number_value (json_object_get (load, "loadavg")),
            output_size (output_json_number (load, "mem_free"), size));
  print_ids ("disk", json_object_get (node, "disks"));
  print_ids ("session", json_object_get (node, "sessions"));
}

int
cmd_node_show (struct ctl *ctl, const struct args *args)
{
  json_t *node;
  int r = ctl_get (ctl, "a node", args_plain (args, 0), "", &node);

  return ctl_show (ctl, r, node, print_node);
}

int
cmd_ok_to_stop (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0);
  json_t *answer;
  bool ok;
  int r = ctl_get (ctl, "a node", name, "/ok-to-stop", &answer);

  if (r != EXIT_OK)
    return r;
  ok = output_json_yes (answer, "ok");
  if (ctl->json)
    output_json (answer);
  else {
    printf ("node %s: %s%s%s\n", name, output_color_start (ok ? "ok" : "error"),
            ok ? "may be stopped" : "must not be stopped now",
            output_color_end (ok ? "ok" : "error"));
    output_lines (json_object_get (answer, "lines"), false);
  }
  json_decref (answer);
  return ok ? EXIT_OK : EXIT_FAILED;
}

/* --- A new host ----------------------------------------------------------- */

int
cmd_node_tokens (struct ctl *ctl, const struct args *args)
{
  return ctl_ls (ctl, NODE_TOKENS, "node_tokens",
                 "ID|FOR NODE|MADE BY|MADE|EXPIRES",
                 "id|node|created_by|created_at|expires_at", NULL);
}

static int
token_cancel (struct ctl *ctl, const char *id)
{
  char path[sizeof NODE_TOKENS + 1 + TOKEN_ID_BYTES];
  json_t *reply;
  int r;

  if (strlen (id) != TOKEN_ID_BYTES ||
      strspn (id, "0123456789abcdef") != TOKEN_ID_BYTES) {
    ctl_error ("--cancel %s: a token is named by its 16 hex digits; weftctl "
               "node tokens lists them",
               id);
    return EXIT_USAGE;
  }
  snprintf (path, sizeof path, NODE_TOKENS "/%s", id);
  r = ctl_call (ctl, "DELETE", path, NULL, &reply);
  return ctl_say (ctl, r, reply, "node token %s: canceled", id);
}

/* The words between commas. */
static json_t *
listed (const char *text)
{
  json_t *list = json_array ();
  size_t n;

  for (;; text += n + 1) {
    n = strcspn (text, ",");
    json_array_append_new (list, json_stringn (text, n));
    if (text[n] == '\0')
      return list;
  }
}

int
cmd_node_address (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0), *address;
  json_t *list = json_array (), *reply;
  char path[CTL_PATH_BYTES];
  int r;

  for (unsigned i = 1; (address = args_plain (args, i)) != NULL; i++)
    json_array_append_new (list, json_string (address));
  r = ctl_path ("a node", name, "/addresses", path);
  if (r != EXIT_OK) {
    json_decref (list);
    return r;
  }
  r = ctl_call (ctl, "PUT", path, json_pack ("{so}", "addresses", list),
                &reply);
  return ctl_say (ctl, r, reply,
                  "node %s: its next certificate is for these; on the node: "
                  "weft-renew --now",
                  name);
}

int
cmd_node_token (struct ctl *ctl, const struct args *args)
{
  const char *node = args_plain (args, 0), *id = args_value (args, "cancel");
  const char *addresses = args_value (args, "address");
  uint64_t ttl = 0;
  json_t *body, *reply;
  int r = args_time (args, "ttl", 1, TTL_S_MAX, &ttl);

  if (r == EXIT_OK && id && (node || ttl || addresses)) {
    ctl_error ("node token --cancel %s: goes alone; nothing was done", id);
    r = EXIT_USAGE;
  }
  if (r != EXIT_OK || id)
    return r == EXIT_OK ? token_cancel (ctl, id) : r;
  if (node)
    r = ctl_check_name ("a node", node);
  if (r != EXIT_OK)
    return r;
  body = json_pack ("{s:s*}", "node", node);
  if (addresses)
    json_object_set_new (body, "addresses", listed (addresses));
  if (ttl)
    json_object_set_new (body, "ttl_s", json_integer ((json_int_t) ttl));
  r = ctl_call (ctl, "POST", NODE_TOKENS, body, &reply);
  return ctl_say (ctl, r, reply,
                  "token        %s\n"
                  "fingerprint  %s\n"
                  "expires      %s\n"
                  "On the new host, with its disks; it asks for the token:\n"
                  "  weft-enroll --admin %s --token-file - --ca-fingerprint %s "
                  "--disk /dev/sdX",
                  output_json_text (reply, "token"),
                  output_json_text (reply, "ca_fingerprint"),
                  output_json_text (reply, "expires_at"),
                  strncmp (ctl->admin_url, "https:", 6) == 0
                    ? ctl->admin_url
                    : "https://HOST:PORT",
                  output_json_text (reply, "ca_fingerprint"));
}

/* --- Changes -------------------------------------------------------------- */

int
cmd_node_maintenance (struct ctl *ctl, const struct args *args)
{
  const char *word = args_plain (args, 0), *name = args_plain (args, 1);
  bool on = strcmp (word, "on") == 0;
  char path[CTL_PATH_BYTES];
  json_t *body, *reply;
  int r;

  if (!on && strcmp (word, "off") != 0) {
    ctl_error ("node maintenance %s: there are node maintenance on and node "
               "maintenance off",
               word);
    return EXIT_USAGE;
  }
  r = ctl_path ("a node", name, "", path);
  if (r != EXIT_OK)
    return r;
  body = json_pack ("{s:b}", "maintenance", on);
  if (args_switch (args, "force"))
    json_object_set_new (body, "force", json_true ());
  /* The end of a maintenance costs nothing, so nobody is asked. */
  if (!on)
    ctl->yes = true;
  r = ctl_change (ctl, "PATCH", path, body, &reply);
  return ctl_say (ctl, r, reply, "node %s: %s", name,
                  on ? "in maintenance; it may be stopped"
                     : "not in maintenance any more");
}

/* The effects of the drain. */
static int
say_drain (struct ctl *ctl, const char *name, const char *id)
{
  json_t *node;
  int r = ctl_get (ctl, "a node", name, "", &node);

  if (r != EXIT_OK)
    return r;
  if (output_json_yes (node, "drained"))
    printf ("node %s: it has no member, so it is drained\n", name);
  else if (json_array_size (json_object_get (node, "stays")) == 0)
    printf ("node %s: its members move away; weftctl wait job %s waits for "
            "it\n",
            name, id);
  else {
    printf ("node %s: it is being drained, but these stay until they have what "
            "they wait for:\n",
            name);
    print_stays (node);
    printf (
      "weftctl wait job %s waits for it; weftctl node drain %s --stop ends "
      "it\n",
      id, name);
  }
  json_decref (node);
  return EXIT_OK;
}

int
cmd_node_drain (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0);
  bool wait = args_switch (args, "wait");
  char path[CTL_PATH_BYTES], id[NAME_BYTES_MAX + 8];
  json_t *job;
  int r = ctl_path ("a node", name, "/drain", path);

  if (r != EXIT_OK)
    return r;
  if (args_switch (args, "stop")) {
    if (ctl->dry_run) {
      ctl_error ("node drain --stop: knows no --dry-run; nothing was done");
      return EXIT_USAGE;
    }
    r = ctl_call (ctl, "DELETE", path, NULL, &job);
    return ctl_say (ctl, r, job,
                    "node %s: no more members are moved away from it", name);
  }
  r = ctl_change (ctl, "POST", path, json_object (), &job);
  if (r != EXIT_OK || ctl->dry_run)
    return r;
  snprintf (id, sizeof id, "%s", output_json_text (job, "id"));
  if (ctl->json && !wait)
    output_json (job);
  else if (!ctl->json)
    r = say_drain (ctl, name, id);
  json_decref (job);
  return wait && r == EXIT_OK ? ctl_wait_job (ctl, id) : r;
}

int
cmd_node_fence (struct ctl *ctl, const struct args *args)
{
  const char *word = args_plain (args, 0), *name = args_plain (args, 1);
  bool on = strcmp (word, "on") == 0;
  char path[CTL_PATH_BYTES];
  json_t *node;
  int r;

  if (!on && strcmp (word, "off") != 0) {
    ctl_error ("node fence %s: there are node fence on and node fence off",
               word);
    return EXIT_USAGE;
  }
  if (!on && ctl->dry_run) {
    ctl_error ("node fence off: knows no --dry-run; nothing was done");
    return EXIT_USAGE;
  }
  r = ctl_path ("a node", name, "/fence", path);
  if (r == EXIT_OK && on)
    r = ctl_change (ctl, "POST", path, json_object (), &node);
  else if (r == EXIT_OK)
    r = ctl_call (ctl, "DELETE", path, NULL, &node);
  return ctl_say (
    ctl, r, node, "node %s: %s", name,
    on ? "fenced; all its requests are refused from now on"
       : "admitted again, with array processes that are started from now on");
}

int
cmd_node_remove (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0);
  char path[CTL_PATH_BYTES];
  json_t *reply = NULL;
  int r = ctl_path ("a node", name, "", path);

  if (r == EXIT_OK)
    r = ctl_change (ctl, "DELETE", path, NULL, &reply);
  return ctl_say (ctl, r, reply,
                  "node %s: forgotten; its certificate is revoked", name);
}

int
cmd_node_revoke (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0);
  char path[CTL_PATH_BYTES];
  json_t *reply = NULL, *member;
  size_t i;
  int r = ctl_path ("a node", name, "/certificate", path);

  if (r == EXIT_OK)
    r = ctl_confirm_shut_out (ctl, "node", name);
  if (r == EXIT_OK && !ctl->dry_run)
    r = ctl_call (ctl, "DELETE", path, NULL, &reply);
  json_array_foreach (json_object_get (reply, "unconfirmed"), i, member)
    if (!ctl->json)
      printf ("%s has not confirmed yet that it refuses the node: make sure "
              "that it runs, and repeat this command\n",
              output_json_shown (member));
  return ctl_say (ctl, r, reply, "node %s: its certificate is revoked", name);
}
