/* cmd-ca.c: the cluster's CA, and another one that takes its place. */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "commands.h"
#include "output.h"

#define CA "/api/v1/ca"

static void
print_one (const char *what, const json_t *ca)
{
  if (json_is_object (ca))
    printf ("%-9s %s\n          since %s, until %s%s\n          %s\n", what,
            json_text (ca, "subject"), json_text (ca, "since"),
            json_text (ca, "until"),
            json_yes (ca, "bound") ? ", for its networks alone" : "",
            json_text (ca, "fingerprint"));
}

static void
print_node (struct table *t, const json_t *node)
{
  table_cell (t, "%s", json_yes (node, "trusts") ? "yes" : "no");
  table_cell (t, "%s", json_yes (node, "renewed") ? "yes" : "no");
  table_cell (t, "%s", json_yes (node, "waited_for") ? "yes" : "-");
}

/* What comes next, and who does that. */
static void
print_next (const json_t *ca, bool waits)
{
  const char *rotation = json_text (ca, "rotation");

  if (strcmp (rotation, "spread") == 0)
    printf (
      "Nodes learn of the next CA, by weft-renew (once an hour); then they "
      "get\ncertificates of it. Where it runs no more: weftctl ca rotate "
      "--force\n");
  else if (strcmp (rotation, "renew") == 0 && waits)
    printf (
      "Nodes get certificates of the next CA, by weft-renew (once an hour). "
      "Whom that\nis in vain to wait for: weftctl node revoke NODE\n");
  else if (strcmp (rotation, "renew") == 0)
    printf (
      "Every node has a certificate of the next CA: weftctl ca retire ends "
      "the rotation.\nBefore that, give the two CAs (/ca.pem) to whoever "
      "else trusts the first.\n");
}

static int
print_ca (struct ctl *ctl, int r, json_t *ca)
{
  const json_t *nodes = json_object_get (ca, "nodes"), *node;
  bool waits = false;
  size_t i;

  if (r != EXIT_OK)
    return r;
  if (ctl->json)
    output_json (ca);
  else {
    print_one ("CA", json_object_get (ca, "ca"));
    print_one ("next", json_object_get (ca, "next"));
    printf ("rotation  %s\n", json_text (ca, "rotation"));
    table_of (nodes,
              "NODE|TRUSTS THESE|HAS A CERTIFICATE OF THE LAST|WAITED FOR",
              "node", print_node, 0);
    json_array_foreach (nodes, i, node)
      waits |= json_yes (node, "waited_for");
    print_next (ca, waits);
  }
  json_decref (ca);
  return r;
}

int
cmd_ca_show (struct ctl *ctl, const struct args *args)
{
  json_t *ca = NULL;
  int r = ctl_call (ctl, "GET", CA, NULL, &ca);

  return print_ca (ctl, r, ca);
}

int
cmd_ca_rotate (struct ctl *ctl, const struct args *args)
{
  json_t *ca = NULL, *body = json_object ();
  int r = EXIT_OK;

  if (args_switch (args, "force")) {
    json_object_set_new (body, "force", json_true ());
    if (!ctl->yes && !ctl->json)
      printf (
        "  Nodes that do not trust the next CA yet can't connect to those "
        "that have a\n  certificate of it, until weft-renew runs there.\n");
    r = ctl_confirm (ctl, "force");
  }
  if (r != EXIT_OK) {
    json_decref (body);
    return r;
  }
  r = ctl_call (ctl, "POST", CA "/rotate", body, &ca);
  return print_ca (ctl, r, ca);
}

int
cmd_ca_retire (struct ctl *ctl, const struct args *args)
{
  json_t *ca = NULL;
  int r;

  if (!ctl->yes && !ctl->json)
    printf (
      "  Whoever trusts the first CA alone can't reach weftd any more.\n");
  r = ctl_confirm (ctl, "retire");
  if (r == EXIT_OK)
    r = ctl_call (ctl, "POST", CA "/retire", NULL, &ca);
  return print_ca (ctl, r, ca);
}
